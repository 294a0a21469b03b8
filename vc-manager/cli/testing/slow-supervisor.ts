import { once } from 'node:events';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { systemClock } from '../../../kube/index.ts';
import { withStateLock } from '../state-directory.ts';

/** Run as a process of its own: a supervisor that, after SIGTERM, holds the lock for a while and ends a while later. */
const [stateDir = ''] = process.argv.slice(2);
const file = join(stateDir, 'supervisor.json');
const { signal } = new AbortController();
await withStateLock({ stateDir, clock: systemClock, signal }, async () => {
  const alive = setInterval(() => undefined, 60_000);
  const stopped = once(process, 'SIGTERM');
  await writeFile(file, JSON.stringify({ pid: process.pid }));
  console.log('up');
  await stopped;
  clearInterval(alive);
  await rm(file);
  await systemClock.sleep(500);
});
// It still runs for a while without the lock.
await systemClock.sleep(500);
