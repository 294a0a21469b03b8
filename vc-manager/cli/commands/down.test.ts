import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { identify } from '../../os/process-identity.ts';
import { claimStateDirectory } from '../state-directory.ts';
import { runCaptured } from '../testing/captured.ts';

let stateDir: string;

beforeEach(async () => {
  stateDir = await mkdtemp(join(tmpdir(), 'skerry-down-'));
  await claimStateDirectory(stateDir);
});

afterEach(() => rm(stateDir, { recursive: true, force: true }));

describe('down', () => {
  it('says what it would stop and remove, and does neither', async () => {
    await mkdir(join(stateDir, 'control-planes', 'abcdefghij'), { recursive: true });
    const stop = await runCaptured(['down', '--dry-run', '--state-dir', stateDir]);
    expect(stop).toMatchObject({
      exitCode: 0,
      stdout: expect.stringContaining('1 tenant control plane would'),
    });
    const purge = await runCaptured(['down', '--purge', '--dry-run', '--state-dir', stateDir]);
    expect(purge.stdout).toContain(`${stateDir} would be removed`);
    expect(await readdir(join(stateDir, 'control-planes'))).toEqual(['abcdefghij']);
  });

  it('waits for a supervisor that is on its way out to end', async () => {
    const script = join(import.meta.dirname, '..', 'testing', 'slow-supervisor.ts');
    const child = spawn(process.execPath, [script, stateDir], { stdio: ['ignore', 'pipe', 'inherit'] });
    await once(child.stdout, 'data');
    const { exitCode, stderr } = await runCaptured(['down', '--state-dir', stateDir]);
    expect(stderr).toContain(`Asking process ${child.pid} to stop everything: done`);
    expect(exitCode).toBe(0);
    expect(await identify(child.pid ?? 0)).toBeUndefined();
  });
});
