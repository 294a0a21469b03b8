import { existsSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { describeWithEngine } from './engine/describe-with-engine.ts';
import { docker, mustDocker, startEngine } from './engine/engine.ts';

describeWithEngine('the Docker engine of the tests', (engine) => {
  it('serves on its own socket, has nobody else’s images and no network but the host’s', async () => {
    const other = await mkdtemp(join(tmpdir(), 'skerry-docker-'));
    const second = await startEngine({
      directory: other,
      compose: join(engine.env['DOCKER_CONFIG'] ?? '', 'cli-plugins', 'docker-compose'),
      tell: () => undefined,
    });
    try {
      expect(second.host).not.toBe(engine.host);
      expect(await mustDocker(second, ['image', 'ls', '--quiet'])).toBe('');
      const networks = await mustDocker(second, ['network', 'ls', '--format', '{{.Name}}']);
      expect(networks.split('\n').sort()).toEqual(['host', 'none']);
    } finally {
      await second.stop();
    }
    expect(existsSync(other)).toBe(false);
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
