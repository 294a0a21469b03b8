import { ApiError, resources } from '../../../kube/index.ts';
import { apiServer, apiServerPort, componentLabel, idLabel, labelsOf, namespaceOf } from './names.ts';
import type { SuperObjects } from './super-objects.ts';

const name = 'kubernetes';

/**
 * Has a Service lead from this address to the API servers of a control plane, in the place of any earlier address. It
 * selects their pods: an address of a Service that leads to another Service's address leads nowhere, as it is
 * translated once. False when the address is somebody else's.
 */
export async function leadToApiServers(
  objects: SuperObjects,
  id: string,
  { address, targetPort, signal }: { address: string; targetPort: number; signal: AbortSignal },
): Promise<boolean> {
  const ref = { namespace: namespaceOf(id), name };
  const there = await objects.find(resources.services, ref, signal);
  if (there !== undefined && (there['spec'] as { clusterIP?: string }).clusterIP !== address) {
    await objects.delete(resources.services, ref, { signal, uid: there.metadata.uid });
  }
  const service = {
    metadata: { ...ref, labels: labelsOf(id) },
    spec: {
      type: 'ClusterIP',
      clusterIP: address,
      selector: { [idLabel]: id, [componentLabel]: apiServer },
      ports: [{ name: 'https', protocol: 'TCP', port: apiServerPort, targetPort }],
    },
  };
  try {
    await objects.apply(resources.services, service, signal);
    return true;
  } catch (error) {
    if (isTaken(error)) return false;
    throw error;
  }
}

function isTaken(error: unknown): boolean {
  if (!(error instanceof ApiError) || error.reason !== 'Invalid') return false;
  const causes = error.status?.details?.causes ?? [];
  return causes.some(
    ({ field = '', message = '' }) =>
      field.startsWith('spec.clusterIP') && message.includes('already allocated'),
  );
}
