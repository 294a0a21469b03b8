import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { expect, it } from 'vitest';
import { scriptRunBy } from '../../scripts/docs-commands.ts';
import { pageOf, Reader } from '../harness/reader.ts';
import { describeWithEngine } from './engine/describe-with-engine.ts';
import { docker, engineAt, mustDocker } from './engine/engine.ts';
import { repository } from './images/index.ts';

describeWithEngine('the Docker engine of the tests', (engine) => {
  it('serves on its own socket, has nobody else’s images and no network but the host’s', async () => {
    const home = await mkdtemp(join(tmpdir(), 'skerry-docker-'));
    const other = join(home, 'engine');
    const script = scriptRunBy(
      pageOf('docs/docker.md'),
      'test/docker/engine.test.ts',
      'node test/docker/engine/main.ts hold',
      { '/tmp/engine': other },
    );
    const held = new Reader(home, {}, {}).start(script, repository);
    const second = engineAt(other);
    try {
      const told = async (): Promise<string[]> => {
        const lines: string[] = [];
        for await (const line of createInterface({ input: held.stdout }))
          if (lines.push(line) === 2) return lines;
        throw new Error((await held).all);
      };
      expect(await told()).toEqual(
        Object.entries(second.env).map(([name, value]) => `export ${name}=${value}`),
      );
      expect(second.host).not.toBe(engine.host);
      expect(await mustDocker(second, ['image', 'ls', '--quiet'])).toBe('');
      const networks = await mustDocker(second, ['network', 'ls', '--format', '{{.Name}}']);
      expect(networks.split('\n').sort()).toEqual(['host', 'none']);
    } finally {
      held.kill('SIGINT');
      await held;
    }
    expect(existsSync(other)).toBe(false);
    await rm(home, { recursive: true });
  });

  it('is spoken to by Docker Compose v2', async () => {
    expect(await mustDocker(engine, ['compose', 'version', '--short'])).toBe('2.40.3');
    expect(await mustDocker(engine, ['compose', 'ls'])).toContain('NAME');
  });

  it('says why a container cannot be run', async () => {
    const { exitCode, stderr } = await docker(engine, ['run', '--pull=never', 'nobody/has-this:1']);
    expect(exitCode).not.toBe(0);
    expect(stderr).toContain('nobody/has-this:1');
  });
});
