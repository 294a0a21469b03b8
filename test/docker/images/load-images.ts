import { createHash } from 'node:crypto';
import { join } from 'node:path';
import type { Cache } from '../../real-node/build/programs.ts';
import type { LayerEntry } from '../../real-node/images/layer.ts';
import { writeImage } from '../../real-node/images/oci-image.ts';
import { docker, type EngineInfo, mustDocker } from '../engine/engine.ts';
import type { DockerImage } from './recipes.ts';

/** Beside a whole test run, at the lowest priority. */
export const transferTimeoutMs = 300_000;

/** Has the engine know these images under their tags; they are made unless they were made before. */
export async function loadImages(
  engine: EngineInfo,
  cache: Cache,
  images: readonly DockerImage[],
): Promise<void> {
  for (const image of images) {
    const [tag = ''] = image.tags;
    const { exitCode } = await docker(engine, ['image', 'inspect', tag]);
    if (exitCode === 0) continue;
    const archive = await provideArchive(cache, image);
    await mustDocker(engine, ['load', '--quiet', '--input', archive], { timeoutMs: transferTimeoutMs });
    cache.tell(`${tag}: loaded`);
  }
}

/** Path of the image as an archive that `docker load` takes. */
export function provideArchive(cache: Cache, { layers, ...image }: DockerImage): Promise<string> {
  const key = createHash('sha256').update(JSON.stringify(image)).digest('hex').slice(0, 12);
  const name = (image.tags[0] ?? '').replace(/[^a-z0-9.]+/g, '-');
  return cache.ensure(cache.path('images', `${name}-${key}.tar`), async (work) => {
    const target = join(work, 'image.tar');
    await writeImage(target, { ...image, layers: (await layers()).map(eachOnce) });
    return target;
  });
}

/** An engine refuses a layer that names a folder twice. */
function eachOnce(entries: readonly LayerEntry[]): LayerEntry[] {
  return [...new Map(entries.map((entry) => [entry.path, entry])).values()];
}
