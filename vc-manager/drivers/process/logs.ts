import { openSync } from 'node:fs';
import { open, stat, truncate } from 'node:fs/promises';
import { StringDecoder } from 'node:string_decoder';
import type { Clock } from '../../../kube/index.ts';
import { cutLine, LineSplitter, longestTailBytes } from '../log-lines.ts';

const largestLogBytes = 10 * 1024 * 1024;
const chunkBytes = 64 * 1024;

/**
 * Puts the end of a log that has grown larger than that aside as `.1`, in place of the one put aside before, and begins it
 * anew. A process may go on appending to it: nothing is lost but what comes between the last look and the cut.
 */
export async function rotateLog(path: string, largestBytes = largestLogBytes): Promise<void> {
  const { size } = await stat(path).catch(() => ({ size: 0 }));
  if (size <= largestBytes) return;
  // On a full disk there is nothing to put it aside on, all the more reason to begin anew.
  await copyEnd(path, size - largestBytes, `${path}.1`).catch(() => undefined);
  await truncate(path);
}

/** Also what is added meanwhile, unless it is more than was there. */
async function copyEnd(path: string, start: number, to: string): Promise<void> {
  await using from = await open(path, 'r');
  await using target = await open(to, 'w', 0o600);
  const buffer = Buffer.alloc(chunkBytes);
  const maxBytes = 2 * largestLogBytes;
  for (let at = start; at - start < maxBytes; ) {
    const { bytesRead } = await from.read(buffer, 0, chunkBytes, at);
    if (bytesRead === 0) return;
    await target.write(buffer, 0, bytesRead);
    at += bytesRead;
  }
}

const rotateEveryMs = 10_000;

/** Keeps the log of a process that runs from filling the disk: a tenant can have its API server log as much as it likes. */
export async function keepLogSmall(path: string, clock: Clock, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await clock.sleep(rotateEveryMs, signal).catch(() => undefined);
    if (!signal.aborted) await rotateLog(path).catch(() => undefined);
  }
}

/** A descriptor to give to a process as its output; the caller closes its own copy. */
export function openLog(path: string): number {
  return openSync(path, 'a', 0o600);
}

/**
 * The last lines of a log, also of what was put aside of it, and where its end was; reads only as much as needed, and
 * 4 MiB at most of each. No file: no lines.
 */
export async function tail(path: string, lines: number): Promise<{ lines: string[]; end: number }> {
  const last = await tailOf(path, lines);
  const missing = lines - last.lines.length;
  if (missing <= 0) return last;
  const aside = await tailOf(`${path}.1`, missing);
  return { ...last, lines: [...aside.lines, ...last.lines] };
}

async function tailOf(path: string, lines: number): Promise<{ lines: string[]; end: number }> {
  const file = await open(path, 'r').catch(() => undefined);
  if (file === undefined) return { lines: [], end: 0 };
  try {
    const end = (await file.stat()).size;
    let start = end;
    let newlines = 0;
    const chunks: Buffer[] = [];
    // One more line break than lines: the one that ends the line before the first wanted one.
    while (start > 0 && newlines <= lines && end - start < longestTailBytes) {
      const length = Math.min(chunkBytes, start);
      start -= length;
      const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, start);
      const chunk = buffer.subarray(0, bytesRead);
      chunks.unshift(chunk);
      for (const byte of chunk) if (byte === 0x0a) newlines++;
    }
    const all = Buffer.concat(chunks).toString('utf8').split('\n');
    if (all.at(-1) === '') all.pop();
    return { lines: lines === 0 ? [] : all.slice(-lines).map(cutLine), end };
  } finally {
    await file.close();
  }
}

const lookEveryMs = 200;

interface ReadLogOptions {
  follow?: boolean;
  tailLines?: number | undefined;
  signal: AbortSignal;
  clock: Clock;
}

/**
 * The lines of a log, without line ends. With `follow` it goes on with what is added until aborted,
 * over rotation and truncation, and also before the file exists. An abort ends the iteration.
 */
export async function* readLog(path: string, options: ReadLogOptions): AsyncGenerator<string> {
  const { signal, clock, tailLines } = options;
  let position = 0;
  if (tailLines !== undefined) {
    const last = await tail(path, tailLines);
    position = last.end;
    yield* last.lines;
    // What is added meanwhile would be more than was asked for.
    if (options.follow !== true) return;
  }
  let inode = await inodeOf(path);
  let decoder = new StringDecoder('utf8');
  let splitter = new LineSplitter();
  while (!signal.aborted) {
    const chunk = await readFrom(path, position);
    position += chunk.length;
    for (const line of splitter.push(decoder.write(chunk))) {
      if (signal.aborted) return;
      yield line;
    }
    if (chunk.length > 0) continue;
    if (!options.follow) break;
    await clock.sleep(lookEveryMs, signal).catch(() => undefined);
    const now = await stat(path).catch(() => undefined);
    if (now !== undefined && (now.ino !== inode || now.size < position)) {
      const cutOff = splitter.end();
      if (cutOff !== undefined) yield cutOff;
      inode = now.ino;
      position = 0;
      splitter = new LineSplitter();
      decoder = new StringDecoder('utf8');
    }
  }
  const last = splitter.end();
  if (last !== undefined && !signal.aborted) yield last;
}

async function inodeOf(path: string): Promise<number | undefined> {
  return stat(path).then(
    (stats) => stats.ino,
    () => undefined,
  );
}

async function readFrom(path: string, position: number): Promise<Buffer> {
  const file = await open(path, 'r').catch(() => undefined);
  if (file === undefined) return Buffer.alloc(0);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(chunkBytes), 0, chunkBytes, position);
    return buffer.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}
