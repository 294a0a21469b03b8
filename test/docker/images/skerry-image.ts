import { createHash } from 'node:crypto';
import { mkdtempSync } from 'node:fs';
import { readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Cache, type Tell } from '../../real-node/build/programs.ts';
import { tree } from '../../real-node/images/layer.ts';
import { type EngineInfo, mustDocker, provideCompose, startEngine } from '../engine/engine.ts';
import { loadImages } from './load-images.ts';
import { node } from './recipes.ts';

export const skerryImage = 'skerry:local';
export const managerImage = 'skerry-manager:local';
export const repository = join(import.meta.dirname, '..', '..', '..');

const buildTimeoutMs = 580_000;

/** Builds from deploy/Dockerfile as a user does; `docker build` of this engine is the classic builder. */
export async function buildSkerry(
  engine: EngineInfo,
  { tag, target, arguments: more = [] }: { tag: string; target: string; arguments?: readonly string[] },
): Promise<void> {
  await mustDocker(
    engine,
    // The engine has no bridge: what npm fetches comes by way of the host's network.
    [
      'build',
      '--network',
      'host',
      '--file',
      'deploy/Dockerfile',
      '--target',
      target,
      '--tag',
      tag,
      ...more,
      '.',
    ],
    { cwd: repository, env: { DOCKER_BUILDKIT: '0' }, timeoutMs: buildTimeoutMs },
  );
}

const dockerfile = 'deploy/Dockerfile';
const dayMs = 86_400_000;

/**
 * Path of `skerry:local` as an archive, for clusters whose nodes have no Docker engine: an engine of its own builds it
 * from deploy/Dockerfile, once for these sources.
 */
export async function provideSkerryArchive(tell: Tell): Promise<string> {
  const cache = new Cache({ env: process.env, signal: new AbortController().signal, tell, room: 'docker' });
  const base = await node(cache);
  const key = createHash('sha256')
    .update(JSON.stringify([base.inputs, await sources()]))
    .digest('hex');
  const name = `skerry-${key.slice(0, 12)}.tar`;
  return cache.ensure(cache.path('images', name), async (work) => {
    const directory = mkdtempSync(join(tmpdir(), 'skerry-docker-'));
    const engine = await startEngine({ directory, compose: await provideCompose(cache), tell });
    const archive = join(work, name);
    try {
      await loadImages(engine, cache, [base]);
      await buildSkerry(engine, { tag: skerryImage, target: 'runtime' });
      await mustDocker(engine, ['save', '--output', archive, skerryImage]);
    } finally {
      await engine.stop();
    }
    await removeEarlier(cache);
    return archive;
  });
}

/** Paths of all that the image is made of, as .dockerignore lists it, with a hash of each. */
async function sources(): Promise<string[]> {
  const lines = (await readFile(join(repository, '.dockerignore'), 'utf8')).split('\n');
  const roots = lines.filter((line) => line.startsWith('!')).map((line) => line.slice(1));
  const paths = [dockerfile];
  for (const root of roots) {
    if (!(await stat(join(repository, root))).isDirectory()) paths.push(root);
    else {
      for (const { path, type } of await tree(join(repository, root)))
        if (type === 'file' && !/(^|\/)testing\/|\.test\.ts$/.test(path)) paths.push(`${root}/${path}`);
    }
  }
  return Promise.all(
    paths.map(async (path) => {
      const content = await readFile(join(repository, path));
      return `${path} ${createHash('sha256').update(content).digest('hex')}`;
    }),
  );
}

/** Of other sources, which nobody asks for again: those that no run that is under way can have been given. */
async function removeEarlier(cache: Cache): Promise<void> {
  for (const file of await readdir(cache.path('images'))) {
    if (!/^skerry-[0-9a-f]{12}\.tar$/.test(file)) continue;
    const { mtimeMs } = await stat(cache.path('images', file));
    if (Date.now() - mtimeMs > dayMs) await rm(cache.path('images', file), { force: true });
  }
}
