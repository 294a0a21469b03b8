import { utimesSync, writeFileSync } from 'node:fs';
import { readdir, readFile, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type Clock, systemClock } from '../../kube/index.ts';
import { BinariesWorld } from '../binaries/testing/binaries-world.ts';
import { lockHolder, withFileLock } from './file-lock.ts';
import { identify } from './process-identity.ts';

const { signal } = new AbortController();
/** In the form of this machine's, of a process that was never there. */
const startOfAnother = `${(await identify(process.pid))?.startTime}`.replace(/.$/, (last) =>
  last === '9' ? '8' : '9',
);

describe('withFileLock', () => {
  it('lets one caller work at a time', async () => {
    await using place = await BinariesWorld.create();
    const path = join(place.directory, 'lock');
    expect(await maxAtOnce(path)).toBe(1);
    expect(await readdir(place.directory)).toEqual(['bin']);
  });

  it('waits for a living process and says for which', async () => {
    await using place = await BinariesWorld.create();
    const path = join(place.directory, 'lock');
    const start = (await identify(process.ppid))?.startTime;
    await writeFile(path, JSON.stringify({ pid: process.ppid, start, token: 'other' }));
    const abort = new AbortController();
    const onWait = (pid: number) => abort.abort(new Error(`waited for ${pid}`));
    const waiting = withFileLock(
      { path, clock: systemClock, signal: abort.signal, onWait },
      async () => 'in',
    );
    await expect(waiting).rejects.toThrow(`waited for ${process.ppid}`);
    expect(JSON.parse(await readFile(path, 'utf8'))).toMatchObject({ token: 'other' });
  });

  it.each([
    ['whose process is gone', { pid: 999_999_999, start: '1', token: 'other' }],
    [
      'whose process number belongs to a later process',
      { pid: process.pid, start: startOfAnother, token: 'other' },
    ],
    ['of a process that is gone, and that another version has written', { pid: 999_999_999, since: 1 }],
  ])('lets one caller at a time take over a lock %s', async (_, holder) => {
    await using place = await BinariesWorld.create();
    const path = join(place.directory, 'lock');
    await writeFile(path, JSON.stringify(holder));
    expect(await maxAtOnce(path)).toBe(1);
    expect(await readdir(place.directory)).toEqual(['bin']);
  });

  it.each([
    ['a start that it does not know', { pid: process.ppid, start: '12345', token: 'other' }],
    ['no start at all', { pid: process.ppid, since: 12_345 }],
  ])('lets nobody take over a lock of a living process with %s', async (_, holder) => {
    await using place = await BinariesWorld.create();
    const path = join(place.directory, 'lock');
    await writeFile(path, JSON.stringify(holder));
    expect(await lockHolder(path, systemClock)).toBe(process.ppid);
  });

  it('does not take away a lock that replaced the abandoned one meanwhile', async () => {
    await using place = await BinariesWorld.create();
    const path = join(place.directory, 'lock');
    const living = JSON.stringify({
      pid: process.ppid,
      start: (await identify(process.ppid))?.startTime,
      token: 'other',
    });
    await writeFile(path, '');
    const past = new Date(Date.now() - 60_000);
    await utimes(path, past, past);
    // The age of the silent lock is the last thing that is asked before it counts as abandoned.
    const clock: Clock = {
      ...systemClock,
      now() {
        writeFileSync(path, living);
        return Date.now();
      },
    };
    const abort = new AbortController();
    const onWait = (pid: number) => abort.abort(new Error(`waited for ${pid}`));
    const waiting = withFileLock({ path, clock, signal: abort.signal, onWait }, async () => 'in');
    await expect(waiting).rejects.toThrow(`waited for ${process.ppid}`);
    expect(await readFile(path, 'utf8')).toBe(living);
  });

  it('respects a lock that says nothing yet, and takes it over when it stays silent', async () => {
    await using place = await BinariesWorld.create();
    const path = join(place.directory, 'lock');
    await writeFile(path, '');
    let waits = 0;
    const onWait = (): void => {
      waits += 1;
      const past = new Date(Date.now() - 60_000);
      utimesSync(path, past, past);
    };
    const options = { path, clock: systemClock, signal, pollMs: 20, onWait };
    await expect(withFileLock(options, async () => 'in')).resolves.toBe('in');
    expect(waits).toBeGreaterThan(0);
  });

  it('gives the lock back when the work fails', async () => {
    await using place = await BinariesWorld.create();
    const path = join(place.directory, 'lock');
    const failing = withFileLock({ path, clock: systemClock, signal }, async () => {
      throw new Error('no');
    });
    await expect(failing).rejects.toThrow('no');
    expect(await readdir(place.directory)).toEqual(['bin']);
  });
});

/** Ten callers want the same lock; how many of them were inside together. */
async function maxAtOnce(path: string): Promise<number> {
  let inside = 0;
  let most = 0;
  const work = async () => {
    inside += 1;
    most = Math.max(most, inside);
    await readFile(path);
    inside -= 1;
  };
  const options = { path, clock: systemClock, signal, pollMs: 1 };
  await Promise.all(Array.from({ length: 10 }, () => withFileLock(options, work)));
  return most;
}
