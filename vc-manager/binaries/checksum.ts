import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';

/** SHA-256 of a file's content, lower-case hexadecimal. */
export async function sha256OfFile(path: string, signal?: AbortSignal): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(
    createReadStream(path, { highWaterMark: 1 << 20 }),
    hash,
    signal === undefined ? {} : { signal },
  );
  return hash.digest('hex');
}

/**
 * The SHA-256 that a checksum file names for `file`. Understands a lone hash (`kubectl.sha256`) and lists of
 * `hash  file` (`SHA256SUMS`). Undefined when the text says nothing about the file.
 */
export function checksumFor(text: string, file: string): string | undefined {
  const lines = text.split('\n').map((line) => line.trim());
  for (const line of lines) {
    const match = /^([0-9a-fA-F]{64})\s+[*]?(\S+)$/.exec(line);
    if (match !== null && match[2]?.split('/').at(-1) === file) return match[1]?.toLowerCase();
  }
  const filled = lines.filter((line) => line !== '');
  const only = filled.length === 1 ? filled[0] : undefined;
  return only !== undefined && /^[0-9a-fA-F]{64}$/.test(only) ? only.toLowerCase() : undefined;
}

/**
 * The SHA-256 that a GitHub release names for one of its files: GitHub computes it at upload and publishes it
 * with the release's description.
 */
export function releaseDigestFor(json: string, file: string): string | undefined {
  let release: { assets?: { name?: unknown; digest?: unknown }[] } | null;
  try {
    release = JSON.parse(json) as typeof release;
  } catch {
    return undefined;
  }
  const digest = release?.assets?.find((asset) => asset.name === file)?.digest;
  const match = typeof digest === 'string' ? /^sha256:([0-9a-fA-F]{64})$/.exec(digest) : null;
  return match?.[1]?.toLowerCase();
}
