import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { placeOnMachine } from '../../drivers/egress-confinement.ts';
import { controlPlanesDirectory } from '../state-directory.ts';
import { stopAll } from './stop.ts';

it('leaves no control groups of components that were killed, when all is stopped', async () => {
  const stateDir = await mkdtemp(join(tmpdir(), 'skerry-stop-'));
  const done: string[] = [];
  try {
    await stopAll({
      stateDir,
      signal: new AbortController().signal,
      progress: {
        step: () => ({ update: () => {}, done: () => {}, fail: () => {} }),
        note: () => {},
        close: () => {},
      },
      driver: { stop: async () => void done.push('stop') },
      confinement: {
        egress: undefined,
        groups: {
          version: 2,
          names: () => [],
          processes: () => [],
          setShare: () => {},
          place: () => {},
          remove: () => [],
          removeEmpty: (prefix) => void done.push(prefix),
        },
      },
    });
  } finally {
    await rm(stateDir, { recursive: true });
  }
  const { name } = placeOnMachine(controlPlanesDirectory(stateDir));
  expect(done).toEqual(['stop', 'stop', `${name}-`]);
});
