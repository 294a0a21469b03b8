import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { itInTestAll } from '../../kube/testing/broad.ts';
import { scriptRunBy } from '../../scripts/docs-commands.ts';
import { pageOf, Reader } from '../harness/reader.ts';
import { describeWithEngine } from './engine/describe-with-engine.ts';
import { docker, mustDocker } from './engine/engine.ts';
import {
  buildSkerry,
  managerImage,
  repository,
  skerryImage,
  withNodeImage,
  withSkerryImages,
} from './images/index.ts';

interface Inspected {
  Size: number;
  Config: { User: string; Entrypoint: string[] };
  RootFS: { Layers: string[] };
}

describeWithEngine('the image of Skerry', (engine) => {
  const inspect = async (image: string): Promise<Inspected> =>
    (JSON.parse(await mustDocker(engine, ['image', 'inspect', image])) as [Inspected])[0];
  const hardened = ['--rm', '--network', 'host', '--read-only', '--cap-drop', 'ALL'];
  const run = (args: readonly string[]) => docker(engine, ['run', ...hardened, ...args]);

  beforeAll(() => withSkerryImages(engine));

  itInTestAll('has the same layers when it is built again', async () => {
    const { RootFS } = await inspect(skerryImage);
    const again = 'skerry:again';
    await withNodeImage(engine);
    await buildSkerry(engine, { tag: again, target: 'runtime', arguments: ['--no-cache'] });
    expect((await inspect(again)).RootFS.Layers).toEqual(RootFS.Layers);
  });

  itInTestAll('is made as docs/docker.md says', async () => {
    const reader = new Reader(mkdtempSync(join(tmpdir(), 'skerry-image-')), {}, engine.env);
    const run = (beginning: string, words: Record<string, string> = {}) =>
      reader.run(
        'docs/docker.md',
        scriptRunBy(pageOf('docs/docker.md'), 'test/docker/image.test.ts', beginning, words),
        repository,
      );
    try {
      await run('node test/docker/images/main.ts');
      // What npm fetches comes by way of the host's network.
      await run('docker build', {
        'docker build': 'DOCKER_BUILDKIT=0 docker build --network host',
        '-t skerry ': '-t skerry:documented ',
        '-t skerry-manager': '-t skerry-manager:documented',
      });
      for (const [documented, image] of [
        ['skerry:documented', skerryImage],
        ['skerry-manager:documented', managerImage],
      ] as const)
        expect((await inspect(documented)).RootFS.Layers).toEqual((await inspect(image)).RootFS.Layers);
    } finally {
      await rm(reader.home, { recursive: true, force: true });
    }
  });

  it('dates every file at the time that it is built for, of which there is 1970 without', async () => {
    const paths = [
      '/usr/local/bin/node',
      '/app',
      '/app/bin/vc-manager.js',
      '/app/node_modules',
      '/etc/passwd',
    ];
    const times = `console.log(JSON.stringify(${JSON.stringify(paths)}.map((path) => fs.statSync(path).mtimeMs)))`;
    const { stdout } = await run(['--entrypoint', 'node', skerryImage, '-e', times]);
    expect(JSON.parse(stdout)).toEqual(paths.map(() => 0));
  });

  it('is nobody’s root, holds no shell, and stays small', async () => {
    const { Config, Size } = await inspect(skerryImage);
    expect(Config.User).toBe('65532:65532');
    expect(Size).toBeLessThan(220e6);
    expect((await run(['--entrypoint', 'sh', skerryImage, '-c', 'true'])).exitCode).toBe(127);
  });

  it('runs both programs on a read-only root file system without any capability', async () => {
    const version = await run([skerryImage, '--version']);
    expect(version.stderr).toBe('');
    expect(version.stdout).toMatch(/^\d+\.\d+\.\d+/);
    expect((await run([skerryImage, '--help'])).stdout).toContain('Gives every tenant');
    const syncer = await run(['--entrypoint', 'vc-syncer', skerryImage, '--help']);
    expect(syncer.stdout).toContain('--metrics-address');
  });

  it('lets nothing write outside of what is mounted', async () => {
    const write = (path: string): string[] => [
      ...['--entrypoint', 'node', skerryImage, '-e'],
      `require('fs').writeFileSync('${path}', 'x')`,
    ];
    expect((await run(write('/app/x'))).stderr).toContain('EROFS');
    expect((await run(write('/tmp/x'))).stderr).toContain('EROFS');
    expect((await run(['--tmpfs', '/tmp', ...write('/tmp/x')])).exitCode).toBe(0);
  });

  it('says what is wrong with an argument, and ends as the command line does', async () => {
    const { exitCode, stderr } = await run([
      skerryImage,
      'operator',
      '--etcd-endpoint',
      'x',
      '--parallel',
      'many',
    ]);
    expect(stderr).toContain('--parallel');
    expect(exitCode).toBe(2);
  });

  it('with the programs of control planes finds them at once', async () => {
    const { stdout } = await run([managerImage, 'binaries', '--output', 'json']);
    const found = JSON.parse(stdout) as { name: string; source: string }[];
    for (const name of ['kube-apiserver', 'kube-controller-manager', 'kubectl']) {
      expect(found.find((each) => each.name === name)).toMatchObject({ source: 'directory' });
    }
  });
});
