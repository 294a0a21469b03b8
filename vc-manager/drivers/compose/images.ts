import type { Docker } from './docker.ts';
import { imageMissing } from './errors.ts';
import type { Target } from './target.ts';

/** Makes the engine have the images, before anything that runs is touched. Throws `ImageMissing`. */
export async function provideImages(
  docker: Docker,
  id: string,
  targets: readonly Target[],
  options: { signal: AbortSignal; onProgress: ((message: string) => void) | undefined },
): Promise<void> {
  const { signal, onProgress } = options;
  const byImage = new Map(targets.map((target) => [target.image, target.component.name]));
  for (const [image, component] of byImage) {
    const { exitCode } = await docker.run(['image', 'inspect', '--format', '{{.Id}}', image], { signal });
    if (exitCode === 0) continue;
    onProgress?.(`pulling ${image}`);
    const pulled = await docker.run(['pull', '--quiet', image], { signal });
    if (pulled.exitCode !== 0) throw imageMissing({ id, component }, image, pulled.stderr);
  }
}
