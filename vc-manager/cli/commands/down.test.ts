import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { identify } from '../../os/process-identity.ts';
import { runCli } from '../program.ts';
import { claimStateDirectory } from '../state-directory.ts';
import { Captured, runCaptured } from '../testing/captured.ts';

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

  it.each([
    ['asks on a terminal before it removes anything, and goes on for yes', true, [], 'y\n', 0],
    ['removes nothing for any other answer', true, [], '\n', 130],
    ['does not ask with --yes', true, ['--yes'], '', 0],
    ['does not ask where nobody can be asked', false, [], '', 0],
  ])('%s', async (_, isTTY, flags, answer, exitCode) => {
    const stdin = Object.assign(new PassThrough(), { isTTY });
    const stderr = new Captured({ isTTY });
    stdin.write(answer);
    const args = ['down', '--purge', '--state-dir', stateDir, ...flags];
    expect(await runCli(args, { env: {}, stdin, stdout: new Captured(), stderr })).toBe(exitCode);
    expect(stderr.text.includes('[y/N]')).toBe(answer !== '');
    expect(existsSync(stateDir)).toBe(exitCode !== 0);
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
