import { mapChanged } from '../containers.ts';
import { ephemeralClaimName } from '../references.ts';
import type { PodStep } from '../translate.ts';
import type { Volume } from '../types.ts';

/**
 * Sync rule 14: an ephemeral volume is the claim that the tenant's controller made for it; in the super
 * cluster another would be made.
 */
export const volumes: PodStep = (spec, pod) => {
  const changed = mapChanged(spec.volumes, (volume: Volume): Volume => {
    if (volume.ephemeral === undefined) return volume;
    const { ephemeral, ...rest } = volume;
    const claimName = ephemeralClaimName(pod.metadata.name ?? '', volume.name);
    const readOnly = ephemeral.readOnly === true ? { readOnly: true } : {};
    return { ...rest, name: volume.name, persistentVolumeClaim: { claimName, ...readOnly } };
  });
  return changed === undefined || changed === spec.volumes ? spec : { ...spec, volumes: changed };
};
