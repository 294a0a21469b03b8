import { openSync } from 'node:fs';
import { open, rename, stat } from 'node:fs/promises';

const rotateAboveBytes = 10 * 1024 * 1024;
const chunkBytes = 64 * 1024;

/** Puts a log that has grown large aside as `.1`, in place of the one put aside before. */
export async function rotateLog(path: string, aboveBytes = rotateAboveBytes): Promise<void> {
  const size = await stat(path).then(
    (stats) => stats.size,
    () => 0,
  );
  if (size > aboveBytes) await rename(path, `${path}.1`);
}

/** A descriptor to give to a process as its output; the caller closes its own copy. */
export function openLog(path: string): number {
  return openSync(path, 'a', 0o600);
}

/** The last lines of a file, and where its end was; reads only as much of it as needed. No file: no lines. */
export async function tail(path: string, lines: number): Promise<{ lines: string[]; end: number }> {
  const file = await open(path, 'r').catch(() => undefined);
  if (file === undefined) return { lines: [], end: 0 };
  try {
    const end = (await file.stat()).size;
    let start = end;
    let newlines = 0;
    const chunks: Buffer[] = [];
    // One more line break than lines: the one that ends the line before the first wanted one.
    while (start > 0 && newlines <= lines) {
      const length = Math.min(chunkBytes, start);
      start -= length;
      const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, start);
      const chunk = buffer.subarray(0, bytesRead);
      chunks.unshift(chunk);
      for (const byte of chunk) if (byte === 0x0a) newlines++;
    }
    const all = Buffer.concat(chunks).toString('utf8').split('\n');
    if (all.at(-1) === '') all.pop();
    return { lines: lines === 0 ? [] : all.slice(-lines), end };
  } finally {
    await file.close();
  }
}
