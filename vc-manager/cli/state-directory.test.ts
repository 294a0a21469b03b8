import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../kube/index.ts';
import {
  asSupervisor,
  claimStateDirectory,
  ensureStateDirectory,
  findSupervisor,
  isStateDirectory,
  readSettings,
  stateChoice,
  withStateLock,
  writeSettings,
} from './state-directory.ts';

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skerry-state-'));
});

afterEach(() => rm(directory, { recursive: true, force: true }));

describe('stateChoice', () => {
  it('takes the option before the variable before the default', () => {
    const env = { SKERRY_STATE: '/by/variable', HOME: '/home/me' };
    expect(stateChoice(env, { stateDir: '/by/option' })).toEqual({
      directory: '/by/option',
      isExplicit: true,
    });
    expect(stateChoice(env, {})).toEqual({ directory: '/by/variable', isExplicit: true });
    expect(stateChoice({ HOME: '/home/me' }, {})).toEqual({
      directory: '/home/me/.local/state/skerry',
      isExplicit: false,
    });
    expect(stateChoice({ HOME: '/home/me', XDG_STATE_HOME: '/xdg' }, {}).directory).toBe('/xdg/skerry');
  });
});

describe('claimStateDirectory', () => {
  it('takes a directory that is empty or not there, and knows it again', async () => {
    const inner = join(directory, 'a', 'b');
    expect(await isStateDirectory(inner)).toBe(false);
    await claimStateDirectory(inner);
    await writeFile(join(inner, 'lock'), '');
    await claimStateDirectory(inner);
    expect(await isStateDirectory(inner)).toBe(true);
  });

  it('refuses one that holds other things, and leaves it alone', async () => {
    await writeFile(join(directory, 'thesis.tex'), 'ten years');
    await expect(claimStateDirectory(directory)).rejects.toThrow('is not empty and was not made by Skerry');
    expect(await isStateDirectory(directory)).toBe(false);
  });

  it.runIf(process.platform === 'linux')(
    'fails at once where no directory can be made (only on Linux)',
    async () => {
      await expect(claimStateDirectory('/proc/skerry')).rejects.toThrow(
        /state directory \/proc\/skerry cannot be used.*--state-dir/,
      );
      await expect(ensureStateDirectory('/proc/skerry')).rejects.toThrow('--state-dir');
    },
  );

  it('says which directory cannot be used, and what to do', async () => {
    const file = join(directory, 'file');
    await writeFile(file, '');
    await expect(claimStateDirectory(join(file, 'state'))).rejects.toThrow(/state directory .*--state-dir/);
  });
});

describe('settings', () => {
  it('are read as they were written', async () => {
    const settings = { superCluster: 'local' as const, ports: { metrics: 1, kubelet: 2 }, samplesMade: true };
    await writeSettings(directory, settings);
    expect(await readSettings(directory)).toEqual(settings);
  });

  it('are none where there is nothing, and an error where they are broken', async () => {
    expect(await readSettings(directory)).toBeUndefined();
    await writeFile(join(directory, 'skerry.json'), '{"superCluster":');
    await expect(readSettings(directory)).rejects.toThrow('cannot be understood');
  });
});

describe('the lock of a state', () => {
  const options = () => ({ stateDir: directory, clock: systemClock, signal: new AbortController().signal });

  it('lets one in and refuses the second at once, naming the first', async () => {
    await asSupervisor(options(), async () => {
      const second = withStateLock(options(), async () => 'inside');
      await expect(second).rejects.toThrow(`process ${process.pid} already looks after the stack`);
    });
    expect(await withStateLock(options(), async () => 'inside')).toBe('inside');
  });

  it('tells who the supervisor is while there is one', async () => {
    expect(await findSupervisor(directory, systemClock)).toBeUndefined();
    await asSupervisor(options(), async () => {
      expect(await findSupervisor(directory, systemClock)).toEqual({ pid: process.pid });
    });
    expect(await findSupervisor(directory, systemClock)).toBeUndefined();
  });

  it('takes nobody for the supervisor who only holds the lock', async () => {
    await withStateLock(options(), async () => {
      expect(await findSupervisor(directory, systemClock)).toBeUndefined();
    });
  });

  it('is free when its holder was killed', async () => {
    await writeFile(join(directory, 'lock'), JSON.stringify({ pid: 2 ** 22 + 1, start: 'then', token: 'x' }));
    expect(await withStateLock(options(), async () => 'inside')).toBe('inside');
    await expect(readFile(join(directory, 'lock'), 'utf8')).rejects.toThrow('ENOENT');
  });
});
