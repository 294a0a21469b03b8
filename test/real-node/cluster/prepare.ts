import { type Cache, providePrograms } from '../build/programs.ts';
import { providePause } from '../images/base-layers.ts';
import { type ImageName, provideImages } from '../images/recipes.ts';
import { provideImageStore } from '../node/image-store.ts';

/** Paths of what every node of a cluster is made of. */
interface Prepared {
  programs: Readonly<Record<'containerd' | 'kubelet' | 'kube-proxy' | 'pause', string>>;
  imageStore: string;
}

/** Builds whatever the cache does not hold yet; the first time on a machine that takes minutes. */
export async function prepareCluster(cache: Cache, images: readonly ImageName[]): Promise<Prepared> {
  const pause = await providePause(cache);
  const programs = await providePrograms(cache, [
    'containerd',
    'containerd-shim-runc-v2',
    'ctr',
    'kubelet',
    'kube-proxy',
  ]);
  const imageStore = await provideImageStore(cache, await provideImages(cache, images), programs);
  return { programs: { ...programs, pause }, imageStore };
}
