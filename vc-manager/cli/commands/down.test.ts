import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { identify } from '../../os/process-identity.ts';
import { claimStateDirectory } from '../state-directory.ts';
import { runCaptured } from '../testing/run-captured.ts';

let stateDir: string;

beforeEach(async () => {
  stateDir = await mkdtemp(join(tmpdir(), 'skerry-down-'));
  await claimStateDirectory(stateDir);
});

afterEach(() => rm(stateDir, { recursive: true, force: true }));

describe('down', () => {
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
