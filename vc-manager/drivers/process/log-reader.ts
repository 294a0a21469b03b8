import { open, stat } from 'node:fs/promises';
import { StringDecoder } from 'node:string_decoder';
import type { Clock } from '../../../kube/index.ts';
import { tail } from './log-file.ts';

const lookEveryMs = 200;
const chunkBytes = 64 * 1024;

export interface ReadLogOptions {
  follow?: boolean;
  tailLines?: number;
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
  let unfinished = '';
  while (!signal.aborted) {
    const chunk = await readFrom(path, position);
    position += chunk.length;
    const lines = (unfinished + decoder.write(chunk)).split('\n');
    unfinished = lines.pop() ?? '';
    for (const line of lines) {
      if (signal.aborted) return;
      yield line;
    }
    if (chunk.length > 0) continue;
    if (!options.follow) break;
    await clock.sleep(lookEveryMs, signal).catch(() => undefined);
    const now = await stat(path).catch(() => undefined);
    if (now !== undefined && (now.ino !== inode || now.size < position)) {
      if (unfinished !== '') yield unfinished;
      inode = now.ino;
      position = 0;
      unfinished = '';
      decoder = new StringDecoder('utf8');
    }
  }
  if (unfinished !== '' && !signal.aborted) yield unfinished;
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
