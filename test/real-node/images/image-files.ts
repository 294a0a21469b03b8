import { createHash } from 'node:crypto';
import { join } from 'node:path';
import type { Cache } from '../build/cache.ts';
import { writeImage } from './oci-image.ts';
import { type ImageName, type ImageRecipe, imageRecipes } from './recipes.ts';

/** Paths of the images as OCI archives; those that were made before are taken from the cache. */
export async function provideImages(cache: Cache, names: readonly ImageName[]): Promise<string[]> {
  const files: string[] = [];
  for (const name of names) {
    const recipe: ImageRecipe = imageRecipes[name];
    files.push(
      await cache.ensure(cache.path('images', `${name}-${keyOf(recipe)}.tar`), async (work) => {
        const target = join(work, `${name}.tar`);
        await writeImage(target, { ...recipe, layers: await recipe.layers(cache, work) });
        return target;
      }),
    );
  }
  return files;
}

/** Another one as soon as anything in the recipe differs. */
function keyOf({ layers: _, ...rest }: ImageRecipe): string {
  return createHash('sha256').update(JSON.stringify(rest)).digest('hex').slice(0, 12);
}
