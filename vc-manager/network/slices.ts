import { cidrEnd, cidrSize, formatCidr, parseCidr } from './cidr.ts';
import { invalidRange, NetworkError } from './errors.ts';

/**
 * The lowest free slice of `pool` with the given prefix length, or undefined when none is left.
 * `taken` may hold ranges of any size, also ones outside the pool; none of them overlaps the answer.
 * Throws NetworkError for a range that cannot be read: to pass over it could hand out its addresses twice.
 */
export function allocateSlice(
  pool: string,
  prefixLength: number,
  taken: readonly string[],
): string | undefined {
  const { family, first, prefixLength: poolPrefixLength } = parseCidr(pool);
  const widest = family === 4 ? 32 : 128;
  if (!Number.isInteger(prefixLength) || prefixLength < 0 || prefixLength > widest) {
    throw invalidRange(
      `/${prefixLength}`,
      `a prefix length is a number from 0 to ${widest}`,
      'For example 22.',
    );
  }
  if (prefixLength < poolPrefixLength) {
    throw new NetworkError(
      'slice-larger-than-pool',
      `/${prefixLength}`,
      `The pool ${pool} is smaller than one slice of /${prefixLength}. Use a larger pool, or slices of /${poolPrefixLength} or smaller.`,
    );
  }
  const end = cidrEnd({ family, first, prefixLength: poolPrefixLength });
  const size = cidrSize({ family, first, prefixLength });
  const used = taken
    .map(parseCidr)
    .filter((cidr) => cidr.family === family)
    .sort((left, right) => Number(left.first - right.first));

  // Invariant: the candidate is aligned, and nothing below it is free for a whole slice.
  let candidate = first;
  for (const cidr of used) {
    if (cidr.first >= candidate + size) break;
    const behind = cidrEnd(cidr);
    if (behind > candidate) candidate = ((behind + size - 1n) / size) * size;
  }
  return candidate + size <= end ? formatCidr({ family, first: candidate, prefixLength }) : undefined;
}
