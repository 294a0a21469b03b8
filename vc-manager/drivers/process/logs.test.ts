import {
  appendFile,
  mkdir,
  mkdtemp,
  open,
  readFile,
  rename,
  rm,
  stat,
  truncate,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Clock, systemClock } from '../../../kube/index.ts';
import { readLog, rotateLog, tail } from './logs.ts';

let directory: string;
let path: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skerry-log-'));
  path = join(directory, 'a.log');
});
afterEach(() => rm(directory, { recursive: true }));

describe('tail', () => {
  it('has no more of long lines, and of all of them, than somebody can read', async () => {
    await writeFile(path, `${'x'.repeat(6 * 1024 * 1024)}\nlast ${'y'.repeat(20_000)}\n`);
    const { lines } = await tail(path, 2);
    expect(lines.map(({ length }) => length)).toEqual([16_385, 16_385]);
    expect(lines[1]).toMatch(/^last y/);
    const followed: string[] = [];
    const { signal } = new AbortController();
    for await (const line of readLog(path, { signal, clock: systemClock })) followed.push(line);
    expect(followed.map(({ length }) => length)).toEqual([16_385, 16_385]);
  });

  it('reads no more lines than asked for, over any number of chunks', async () => {
    const lines = Array.from({ length: 30_000 }, (_, index) => `line ${index}`);
    await writeFile(path, `${lines.join('\n')}\n`);
    expect((await tail(path, 3)).lines).toEqual(['line 29997', 'line 29998', 'line 29999']);
    expect((await tail(path, 20_000)).lines).toEqual(lines.slice(10_000));
    expect((await tail(path, 40_000)).lines).toEqual(lines);
    expect((await tail(path, 0)).lines).toEqual([]);
  });

  it('takes a last line without an end, and a file that is not there', async () => {
    await writeFile(path, 'one\ntwo');
    expect((await tail(path, 1)).lines).toEqual(['two']);
    expect(await tail(join(directory, 'absent'), 5)).toEqual({ lines: [], end: 0 });
  });
});

describe('rotateLog', () => {
  it('puts the end of a log aside when it has grown large, and whoever appends to it goes on at its start', async () => {
    const file = await open(path, 'a');
    await file.write('x'.repeat(97));
    await file.write('end');
    await rotateLog(path, 100);
    expect((await stat(path)).size).toBe(100);
    await rotateLog(path, 10);
    expect(await readFile(`${path}.1`, 'utf8')).toBe('xxxxxxxend');
    await file.write('next');
    expect(await readFile(path, 'utf8')).toBe('next');
    await file.close();
  });

  it('leaves its last lines where they are looked for', async () => {
    await writeFile(path, 'one\ntwo\nthree\n');
    await rotateLog(path, 10);
    await appendFile(path, 'four\n');
    expect((await tail(path, 3)).lines).toEqual(['two', 'three', 'four']);
    expect((await tail(path, 1)).lines).toEqual(['four']);
  });

  it('begins anew although there is no place to put it aside', async () => {
    await writeFile(path, 'x'.repeat(100));
    await mkdir(`${path}.1`);
    await rotateLog(path, 10);
    expect(await readFile(path, 'utf8')).toBe('');
  });

  it('has nothing to do where there is no log', async () => {
    await rotateLog(path);
  });
});

describe('readLog', () => {
  /** `atEnd`: when all that is there has been read, and the first look for more is awaited. */
  async function follow(
    changes: Record<string, () => Promise<void>>,
    last: string,
    atEnd?: () => Promise<void>,
  ): Promise<string[]> {
    const abort = new AbortController();
    const seen: string[] = [];
    let next = atEnd;
    const sleep: Clock['sleep'] = async (ms, signal) => {
      const now = next;
      next = undefined;
      await now?.();
      await systemClock.sleep(ms, signal);
    };
    const clock = { ...systemClock, sleep };
    for await (const line of readLog(path, { follow: true, signal: abort.signal, clock })) {
      seen.push(line);
      await changes[line]?.();
      if (line === last) abort.abort();
    }
    return seen;
  }

  it('shows no more lines than asked for of a log that is being written', async () => {
    await writeFile(path, 'one\ntwo\nthree\n');
    const seen: string[] = [];
    const { signal } = new AbortController();
    for await (const line of readLog(path, { tailLines: 2, signal, clock: systemClock })) {
      seen.push(line);
      await appendFile(path, 'later\n');
    }
    expect(seen).toEqual(['two', 'three']);
  });

  it('follows over rotation and truncation', async () => {
    await writeFile(path, 'first\n');
    const seen = await follow(
      {
        first: () => appendFile(path, 'second\n'),
        second: async () => {
          await rename(path, `${path}.1`);
          await writeFile(path, 'new file\n');
        },
        'new file': async () => {
          await truncate(path);
          await appendFile(path, 'short\n');
        },
      },
      'short',
    );
    expect(seen).toEqual(['first', 'second', 'new file', 'short']);
  });

  it('joins lines and characters that are written in pieces', async () => {
    const [head, rest] = [Buffer.from('ä').subarray(0, 1), Buffer.from('ä').subarray(1)];
    await writeFile(path, 'begin\n');
    const seen = await follow(
      {
        begin: () => appendFile(path, Buffer.concat([Buffer.from('gr'), head])),
      },
      'grän',
      () => appendFile(path, Buffer.concat([rest, Buffer.from('n\n')])),
    );
    expect(seen).toEqual(['begin', 'grän']);
  });
});
