import type { TenantPolicy } from '../../../api/policy.ts';
import { isRepositoryListed, repositoryOf } from '../../../api/policy-lists.ts';
import { allContainers, mapContainers, mapItems, type Pod, type PodSpec, type PodStep } from './types.ts';

/** Whether an image comes from where the policy allows it. Where it allows any, whatever it is. */
export function isImageAllowed(image: unknown, policy: TenantPolicy): boolean {
  return policy.imageRegistries === undefined || isRepositoryAllowed(repositoryOf(image), policy);
}

/** The same of what `repositoryOf` has found. */
export function isRepositoryAllowed(repository: unknown, { imageRegistries }: TenantPolicy): boolean {
  if (imageRegistries === undefined) return true;
  return typeof repository === 'string' && isRepositoryListed(imageRegistries, repository);
}

/** Why the images of containers and volumes are not all to be had; undefined: they are. */
export function refusedImage(spec: PodSpec, policy: TenantPolicy): string | undefined {
  if (policy.imageRegistries === undefined) return undefined;
  for (const { name, image } of allContainers(spec))
    if (!isImageAllowed(image, policy)) return ofImage(`container ${name}`, image);
  for (const { name, image } of spec.volumes ?? []) {
    if (image === undefined) continue;
    const { reference } = (image ?? {}) as { reference?: unknown };
    if (!isImageAllowed(reference, policy)) return ofImage(`volume ${name}`, reference);
  }
  return undefined;
}

function ofImage(what: string, image: unknown): string {
  return `${what}: the image ${JSON.stringify(image)} is not from a registry that this cluster allows (policy: imageRegistries)`;
}

/**
 * New images that a pod's owner has given to containers of the super object and that do not go down; undefined: none.
 */
export function refusedImageChange(tenantPod: Pod, superPod: Pod, policy: TenantPolicy): string | undefined {
  if (policy.imageRegistries === undefined) return undefined;
  const present = new Map(allContainers(superPod.spec ?? {}).map(({ name, image }) => [name, image]));
  const { containers = [], initContainers = [] } = tenantPod.spec ?? {};
  const refused = [...initContainers, ...containers].find(
    ({ name, image }) => present.has(name) && present.get(name) !== image && !isImageAllowed(image, policy),
  );
  return refused && `${ofImage(`container ${refused.name}`, refused.image)}; it keeps the one that it has`;
}

/**
 * Sync rule `pod-images`: with `Always`, kubelet asks the registry with the pod's own credentials whether it may have an
 * image that the node has already, pulled for another tenant perhaps.
 */
export const pullPolicy: PodStep = (spec, _pod, { tenant }) => {
  if (tenant.policy.alwaysPullImages !== true) return spec;
  const ofVolumes = mapItems(spec, 'volumes', (volume) => {
    const image = volume['image'];
    if (typeof image !== 'object' || image === null) return volume;
    return { ...volume, image: { ...image, pullPolicy: 'Always' } };
  });
  return mapContainers(ofVolumes, (container) =>
    container['imagePullPolicy'] === 'Always' ? container : { ...container, imagePullPolicy: 'Always' },
  );
};
