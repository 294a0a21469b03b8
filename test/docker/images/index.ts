import { controlPlaneRequests } from '../../../vc-manager/binaries/index.ts';
import { Cache } from '../../real-node/build/programs.ts';
import { docker, type EngineInfo, mustDocker } from '../engine/engine.ts';
import { loadImages, provideArchive, transferTimeoutMs } from './load-images.ts';
import { kubernetesImages, node, redis } from './recipes.ts';
import { buildSkerryImages, managerImage, provideSkerryArchives } from './skerry-image.ts';

export { redisImage } from './recipes.ts';
export {
  buildSkerry,
  managerImage,
  provideEngineStore,
  provideSkerryArchives,
  repository,
  skerryImage,
} from './skerry-image.ts';

function cacheOf(tell: (line: string) => void): Cache {
  return new Cache({ env: process.env, signal: new AbortController().signal, tell, room: 'docker' });
}

/** Makes every image that is loaded, into the cache. */
export async function prepareImages(cache: Cache): Promise<void> {
  for (const image of [await node(cache), await redis(), ...kubernetesImages(cache)]) {
    await provideArchive(cache, image);
  }
}

/** Has the engine know upstream's images of Kubernetes, etcd and kwok. */
export async function withKubernetesImages(engine: EngineInfo, tell = console.log): Promise<void> {
  const cache = cacheOf(tell);
  await loadImages(engine, cache, kubernetesImages(cache));
}

/** Has the engine know upstream's images of another version's control planes. */
export async function withControlPlaneImages(
  engine: EngineInfo,
  version: string,
  tell = console.log,
): Promise<void> {
  const cache = cacheOf(tell);
  await loadImages(engine, cache, kubernetesImages(cache, controlPlaneRequests(version)));
}

/** Paths of upstream's images of another version's control planes, as archives. */
export function provideControlPlaneArchives(version: string, tell = console.log): Promise<string[]> {
  const cache = cacheOf(tell);
  const images = kubernetesImages(cache, controlPlaneRequests(version));
  return Promise.all(images.map((image) => provideArchive(cache, image)));
}

/** Has the engine know upstream's image of Redis. */
export async function withRedisImage(engine: EngineInfo, tell = console.log): Promise<void> {
  await loadImages(engine, cacheOf(tell), [await redis()]);
}

/** Has the engine know upstream's image of Node, of which Skerry's are made. */
export async function withNodeImage(engine: EngineInfo, tell = console.log): Promise<void> {
  const cache = cacheOf(tell);
  await loadImages(engine, cache, [await node(cache)]);
}

/** Has the engine build Skerry's own images. */
export async function withBuiltSkerryImages(engine: EngineInfo, tell = console.log): Promise<void> {
  await buildSkerryImages(engine, cacheOf(tell));
}

/** Has the engine know Skerry's own images as they were built once for these sources. */
export async function withSkerryImages(engine: EngineInfo, tell = console.log): Promise<void> {
  const { exitCode } = await docker(engine, ['image', 'inspect', managerImage]);
  if (exitCode === 0) return;
  const { all } = await provideSkerryArchives(tell);
  await mustDocker(engine, ['load', '--quiet', '--input', all], { timeoutMs: transferTimeoutMs });
}
