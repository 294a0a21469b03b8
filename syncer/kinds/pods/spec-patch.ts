import { deepEqual } from 'fast-equals';
import type { MergePatch } from '../../../kube/index.ts';
import { mapChanged } from './containers.ts';
import { isBlanket, isGuarded, superTolerations } from './steps/scheduling.ts';
import type { Container, Pod, PodSpec, Toleration } from './types.ts';

/**
 * What a pod's owner may change after its creation (sync rule 17): images, a deadline that comes nearer,
 * a negative grace period, more tolerations. Compares just these, so that what the super cluster's server and webhooks have put
 * into S is no difference. As `{ spec: … }`; undefined when S has them all.
 */
export function specPatch(tenantPod: Pod, superPod: Pod): MergePatch | undefined {
  const t = tenantPod.spec ?? {};
  const s = superPod.spec ?? {};
  let patch: MergePatch | undefined;
  for (const list of ['containers', 'initContainers'] as const) {
    const updated = withImages(s[list], t[list]);
    if (updated !== s[list]) patch = { ...patch, [list]: updated };
  }
  const { activeDeadlineSeconds } = t;
  if (activeDeadlineSeconds !== undefined && activeDeadlineSeconds < (s.activeDeadlineSeconds ?? Infinity)) {
    patch = { ...patch, activeDeadlineSeconds };
  }
  // The one change that is allowed, and only from what no API server should have let in.
  const { terminationGracePeriodSeconds } = t;
  if (terminationGracePeriodSeconds === 1 && (s.terminationGracePeriodSeconds ?? 0) < 0)
    patch = { ...patch, terminationGracePeriodSeconds };
  const tolerations = withTolerations(s, t.tolerations);
  if (tolerations !== s.tolerations) patch = { ...patch, tolerations };
  return patch === undefined ? undefined : { spec: patch };
}

/** S's containers, injected ones included, with T's images by name. */
function withImages(
  present: Container[] | undefined,
  wanted: Container[] | undefined,
): Container[] | undefined {
  return mapChanged(present, (container: Container) => {
    const image = wanted?.find(({ name }) => name === container.name)?.image;
    return image === undefined || image === container.image ? container : { ...container, image };
  });
}

/** S's tolerations, then what T has more; of one that both have, T says for how long. */
function withTolerations(s: PodSpec, wanted: readonly Toleration[] | undefined): Toleration[] | undefined {
  let result = s.tolerations;
  for (const toleration of superTolerations(wanted) ?? []) {
    const index = result?.findIndex((present) => sameTaints(present, toleration)) ?? -1;
    const present = result?.[index];
    if (present !== undefined) {
      if (present.tolerationSeconds === toleration.tolerationSeconds) continue;
      result = result?.map((item) => (item === present ? toleration : item));
    } else if (!isBlanket(toleration) || isGuarded(s)) {
      result = [...(result ?? []), toleration];
    }
  }
  // T may have one twice, with two times: only the last of them counts.
  return deepEqual(result, s.tolerations) ? s.tolerations : result;
}

function sameTaints(a: Toleration, b: Toleration): boolean {
  return a.key === b.key && a.operator === b.operator && a.value === b.value && a.effect === b.effect;
}
