import { createHash } from 'node:crypto';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Cache } from '../build/cache.ts';
import { writeImage } from './oci-image.ts';
import { type ImageName, type ImageRecipe, imageRecipes } from './recipes.ts';

/** Paths of the images as OCI archives; those that were made before are taken from the cache. */
export async function provideImages(cache: Cache, names: readonly ImageName[]): Promise<string[]> {
  const files: string[] = [];
  for (const name of names) {
    const recipe: ImageRecipe = imageRecipes[name];
    const path = cache.path('images', `${name}-${keyOf(recipe)}.tar`);
    files.push(
      await cache.ensure(path, async (work) => {
        const target = join(work, `${name}.tar`);
        await writeImage(target, { ...recipe, layers: await recipe.layers(cache, work) });
        await removeEarlier(cache, name);
        return target;
      }),
    );
  }
  return files;
}

/** Images of this name that were made after another recipe: nobody asks for them again. */
async function removeEarlier(cache: Cache, name: ImageName): Promise<void> {
  const pattern = new RegExp(`^${name}-[0-9a-f]{12}\\.tar$`);
  for (const file of await readdir(cache.path('images'))) {
    if (pattern.test(file)) await rm(cache.path('images', file), { force: true });
  }
}

/** Another one as soon as anything in the recipe differs. */
function keyOf({ layers: _, ...rest }: ImageRecipe): string {
  return createHash('sha256').update(JSON.stringify(rest)).digest('hex').slice(0, 12);
}
