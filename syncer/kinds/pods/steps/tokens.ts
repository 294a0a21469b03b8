import { tokenAsks, tokenKeyOf, tokenSecretName } from '../../pod-tokens.ts';
import { mapChanged } from '../containers.ts';
import type { PodStep } from '../translate.ts';
import { allContainers, type PodSpec, type Projection, type Volume } from '../types.ts';

/**
 * Sync rule 6: no token of the super cluster in any pod. In the place of each source of a token stands the Secret
 * that holds the one which the tenant's API server has issued; kubelet brings its renewals into the pod.
 */
export const tokens: PodStep = (spec, pod) => {
  const asks = tokenAsks(spec);
  const name = tokenSecretName(pod.metadata.name ?? '');
  const mode = fileMode(spec);
  const projected = (source: Projection): Projection => {
    if (source.serviceAccountToken === undefined) return source;
    const { path } = source.serviceAccountToken;
    const key = tokenKeyOf(source.serviceAccountToken, asks);
    const item = { key, path, ...(mode === undefined ? {} : { mode }) };
    return { secret: { name, items: [item], optional: false } };
  };
  const inVolume = (volume: Volume): Volume => {
    const sources = mapChanged(volume.projected?.sources, projected);
    if (sources === undefined || sources === volume.projected?.sources) return volume;
    return { ...volume, projected: { ...volume.projected, sources } };
  };
  return {
    ...spec,
    automountServiceAccountToken: false,
    ...(asks.length === 0 || spec.volumes === undefined
      ? {}
      : { volumes: mapChanged(spec.volumes, inVolume) }),
  };
};

const ownerOnly = 0o600;
const everybody = 0o644;

/**
 * Kubelet gives a token to the one user that a pod's containers run as, with mode 0600, or to the pod's fsGroup,
 * for which it adds the right to read. The file of a Secret it gives to a group, but not to a user: then all who
 * see the volume may read, and that is this one user. Undefined: as the volume says.
 */
function fileMode(spec: PodSpec): number | undefined {
  if (spec.securityContext?.fsGroup !== undefined) return ownerOnly;
  const users = new Set(
    allContainers(spec).map(
      ({ securityContext }) => securityContext?.runAsUser ?? spec.securityContext?.runAsUser,
    ),
  );
  const [user] = users;
  if (users.size !== 1 || user === undefined) return undefined;
  return user === 0 ? ownerOnly : everybody;
}
