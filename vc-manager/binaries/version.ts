import type { BinaryName } from './binary.ts';

export interface Version {
  major: number;
  minor: number;
  patch: number;
  /** As written, without a leading `v`. */
  text: string;
}

/** The first `x.y.z` with an optional pre-release in the text; undefined when there is none. */
export function parseVersion(text: string): Version | undefined {
  const match = /(?<![\d.])(\d+)\.(\d+)\.(\d+)(?:-[0-9A-Za-z][0-9A-Za-z.-]*)?/.exec(text);
  if (match === null) return undefined;
  return { major: Number(match[1]), minor: Number(match[2]), patch: Number(match[3]), text: match[0] };
}

/**
 * Whether a binary of a user may stand in for the wanted version: same minor version, since patches of one
 * minor share flags and stored formats. kubectl may be one minor off, which is Kubernetes' own skew policy.
 */
export function standsInFor(name: BinaryName, actual: string, wanted: string): boolean {
  const a = parseVersion(actual);
  const w = parseVersion(wanted);
  if (a === undefined || w === undefined || a.major !== w.major) return false;
  return Math.abs(a.minor - w.minor) <= (name === 'kubectl' ? 1 : 0);
}

/** `go1.26.8`, `1.26`, `go1.27rc1` as numbers; undefined for development builds without a number. */
export function parseGoVersion(text: string): [number, number, number] | undefined {
  const match = /(\d+)\.(\d+)(?:\.(\d+))?/.exec(text);
  return match === null ? undefined : [Number(match[1]), Number(match[2]), Number(match[3] ?? 0)];
}

/** Whether Go `actual` can build what asks for Go `needed`. What cannot be read is given a chance: go itself will object. */
export function goSuffices(actual: string, needed: string): boolean {
  const a = parseGoVersion(actual);
  const n = parseGoVersion(needed);
  if (a === undefined || n === undefined) return true;
  for (const [i, part] of n.entries()) {
    const have = a[i] ?? 0;
    if (have !== part) return have > part;
  }
  return true;
}

/**
 * The Go version that a build is known to need, so that a toolchain that is too old is refused before anything
 * is fetched. Undefined when only the module itself can tell; its own `go` line decides in the end.
 */
export function knownGoVersion(name: BinaryName, version: string): string | undefined {
  const parsed = parseVersion(version);
  if (parsed === undefined) return undefined;
  const { major, minor } = parsed;
  if (name === 'etcd') return major === 3 && minor === 7 ? '1.26' : undefined;
  if (name === 'kwok') return major === 0 && minor === 8 ? '1.26' : undefined;
  // 1.34 asks for 1.24, 1.35 for 1.25, 1.36 for 1.26.
  return major === 1 && minor >= 34 && minor <= 36 ? `1.${minor - 10}` : undefined;
}
