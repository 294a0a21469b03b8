import { createHash } from 'node:crypto';
import { mkdtempSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Cache, type Tell } from '../../real-node/build/programs.ts';
import { tree } from '../../real-node/images/layer.ts';
import { type EngineInfo, mustDocker, provideCompose, startEngine } from '../engine/engine.ts';
import { loadImages, transferTimeoutMs } from './load-images.ts';
import { kubernetesImages, node, redis } from './recipes.ts';

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

/** Has the engine know `skerry:local` and `skerry-manager:local`, which it builds; the second has Kubernetes' programs too. */
export async function buildSkerryImages(engine: EngineInfo, cache: Cache): Promise<void> {
  await loadImages(engine, cache, [await node(cache), ...kubernetesImages(cache)]);
  await buildSkerry(engine, { tag: skerryImage, target: 'runtime' });
  await buildSkerry(engine, { tag: managerImage, target: 'manager' });
}

const dockerfile = 'deploy/Dockerfile';
/** What the stages of the Dockerfile are made of that stand before the sources. */
const beforeSources = [dockerfile, 'package.json', 'package-lock.json'];
const lastBeforeSources = 'manager-base';

/**
 * What an engine keeps that knows upstream's images, and has built all of Skerry's that does not depend on its sources.
 * Made once: an engine that is started with it takes links, where to load and build the same costs minutes.
 */
export async function provideEngineStore(tell: Tell): Promise<string> {
  const cache = new Cache({ env: process.env, signal: new AbortController().signal, tell, room: 'docker' });
  const images = [await node(cache), await redis(), ...kubernetesImages(cache)];
  const files = await Promise.all(beforeSources.map((path) => readFile(join(repository, path), 'utf8')));
  const key = createHash('sha256')
    .update(JSON.stringify([images.map(({ tags, inputs }) => [tags, inputs]), files]))
    .digest('hex');
  return cache.ensure(cache.path('engines', `engine-${key.slice(0, 12)}`), async (work) => {
    const directory = mkdtempSync(join(tmpdir(), 'skerry-docker-'));
    const keep = join(work, 'data');
    const engine = await startEngine({ directory, compose: await provideCompose(cache), keep, tell });
    try {
      await loadImages(engine, cache, images);
      await buildSkerry(engine, { tag: 'skerry-base:local', target: lastBeforeSources });
    } finally {
      await engine.stop();
    }
    await removeEarlier(cache, 'engines', /^engine-[0-9a-f]{12}$/);
    return keep;
  });
}

/** As long as the longest run may take that was given an archive. */
const keptMs = 6 * 3_600_000;

interface SkerryArchives {
  /** `skerry:local` alone, for nodes. */
  readonly runtime: string;
  /** Both images. */
  readonly all: string;
}

/**
 * Paths of Skerry's images as archives: an engine of its own builds them from deploy/Dockerfile, once for these
 * sources. Neither nodes, which have no engine, nor the engine of the suites build them again.
 */
export async function provideSkerryArchives(tell: Tell): Promise<SkerryArchives> {
  const cache = new Cache({ env: process.env, signal: new AbortController().signal, tell, room: 'docker' });
  const bases = [await node(cache), ...kubernetesImages(cache)].map(({ inputs }) => inputs);
  const key = createHash('sha256')
    .update(JSON.stringify([bases, await sources()]))
    .digest('hex');
  const at = (directory: string): SkerryArchives => ({
    runtime: join(directory, 'skerry.tar'),
    all: join(directory, 'all.tar'),
  });
  const made = await cache.ensure(cache.path('images', `skerry-${key.slice(0, 12)}`), async (work) => {
    const directory = mkdtempSync(join(tmpdir(), 'skerry-docker-'));
    const compose = await provideCompose(cache);
    const store = await provideEngineStore(tell);
    const engine = await startEngine({ directory, compose, store, tell });
    const archives = join(work, 'archives');
    await mkdir(archives);
    const { runtime, all } = at(archives);
    try {
      await buildSkerryImages(engine, cache);
      const save = (archive: string, ...images: string[]): Promise<string> =>
        mustDocker(engine, ['save', '--output', archive, ...images], { timeoutMs: transferTimeoutMs });
      await save(runtime, skerryImage);
      await save(all, skerryImage, managerImage);
    } finally {
      await engine.stop();
    }
    await removeEarlier(cache, 'images', /^skerry-[0-9a-f]{12}(\.tar)?$/);
    return archives;
  });
  return at(made);
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
async function removeEarlier(cache: Cache, folder: string, names: RegExp): Promise<void> {
  for (const name of await readdir(cache.path(folder))) {
    if (!names.test(name)) continue;
    const { mtimeMs } = await stat(cache.path(folder, name));
    if (Date.now() - mtimeMs > keptMs) await rm(cache.path(folder, name), { recursive: true, force: true });
  }
}
