import { mapChanged } from '../containers.ts';
import type { PodStep } from '../translate.ts';
import type { Volume } from '../types.ts';

/**
 * Sync rule 6: no token of the super cluster in any pod. Sources of tokens are taken out; the rest of
 * the volume stays, so that mounts, CA and namespace are where programs look for them. The tenant's own
 * tokens will be projected here from a Secret.
 */
export const tokens: PodStep = (spec) => ({
  ...spec,
  automountServiceAccountToken: false,
  ...(spec.volumes === undefined ? {} : { volumes: mapChanged(spec.volumes, withoutTokens) }),
});

function withoutTokens(volume: Volume): Volume {
  const sources = volume.projected?.sources;
  if (!sources?.some(({ serviceAccountToken }) => serviceAccountToken !== undefined)) return volume;
  const kept = sources.filter(({ serviceAccountToken }) => serviceAccountToken === undefined);
  return { ...volume, projected: { ...volume.projected, sources: kept } };
}
