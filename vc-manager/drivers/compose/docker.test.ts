import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { DriverError } from '../errors.ts';
import { ComposeDriver } from './compose-driver.ts';
import { Docker, parseComposeVersion } from './docker.ts';

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skerry-docker-cli-'));
});

afterEach(() => rm(directory, { recursive: true }));

/** A command line that says what is given for its first argument. */
async function standIn(cases: string): Promise<Docker> {
  const path = join(directory, 'docker');
  await writeFile(path, `#!/bin/sh\ncase "$1" in\n${cases}\nesac\n`);
  await chmod(path, 0o755);
  return new Docker({ PATH: [directory, process.env['PATH']].join(delimiter) });
}

async function failure(promise: Promise<unknown>): Promise<DriverError> {
  return promise.then(
    () => Promise.reject(new Error('it did not fail')),
    (error: DriverError) => error,
  );
}

describe('Docker', () => {
  it('says what to install where there is no docker', async () => {
    const error = await failure(new Docker({ PATH: directory }).check());
    expect(error).toMatchObject({ code: 'EngineUnavailable', retryable: true });
    expect(error.message).toContain('docker-compose-plugin');
    const driver = new ComposeDriver({ root: join(directory, 'root'), environment: { PATH: directory } });
    expect(await failure(driver.observe('blue'))).toMatchObject({ code: 'EngineUnavailable' });
    await driver.close();
  });

  it('says what to look at when the engine does not answer, whatever was asked', async () => {
    const said = 'Cannot connect to the Docker daemon at unix:///none.sock. Is the docker daemon running?';
    const docker = await standIn(`*) echo '${said}' >&2; exit 1;;`);
    for (const ask of [() => docker.check(), () => docker.run(['ps'])]) {
      const error = await failure(ask());
      expect(error).toMatchObject({ code: 'EngineUnavailable', retryable: true });
      expect(error.message).toContain('unix:///none.sock');
      expect(error.message).toContain('DOCKER_HOST');
    }
  });

  it('says which Compose it needs when there is none or an old one', async () => {
    const none = await standIn(
      `version) echo 28.2.2;;\n*) echo "docker: 'compose' is not a docker command." >&2; exit 1;;`,
    );
    expect(await failure(none.check())).toMatchObject({
      code: 'EngineTooOld',
      retryable: false,
      message: expect.stringContaining('docker-compose-plugin'),
    });
    const old = await standIn('version) echo 20.10.5;;\ncompose) echo v2.17.3;;');
    expect((await failure(old.check())).message).toContain('2.17.3 is too old: 2.20.0 or later');
  });

  it('looks again after a failure, and not after a success', async () => {
    const docker = await standIn('*) exit 1;;');
    await failure(docker.check());
    await standIn(`version) echo x >> ${directory}/asked; echo 28.2.2;;\ncompose) echo 2.40.3;;`);
    await docker.check();
    await standIn('*) exit 1;;');
    await docker.check();
  });

  it('gives lines of both outputs as they come, and ends when nobody wants more', async () => {
    const docker = await standIn(`logs) echo one; echo two >&2; exec sleep 1000;;`);
    const lines: string[] = [];
    for await (const line of docker.lines(['logs'], new AbortController().signal)) {
      lines.push(line);
      if (lines.length === 2) break;
    }
    expect(lines.sort()).toEqual(['one', 'two']);
  });
});

describe('parseComposeVersion', () => {
  it('knows what suffices', () => {
    const judged = ['2.19.9', '2.20.0', 'v2.40.3', '5.0.1', '1.29.2'].map(
      (text) => parseComposeVersion(text)?.suffices,
    );
    expect(judged).toEqual([false, true, true, true, false]);
    expect(parseComposeVersion('dev')).toBeUndefined();
  });
});
