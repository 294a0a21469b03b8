import { annotationKeys } from '../../api/labels.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import type { StoreEvent } from '../../kube/index.ts';
import type { WorkQueue } from '../jobs/index.ts';
import { isTakenUp } from './removal/index.ts';
import type { Services } from './services.ts';
import { StatusWriter } from './status-writer.ts';

/** `namespace/name`: what the queue knows a VirtualCluster by. */
export function keyOf({ metadata }: VirtualCluster): string {
  return `${metadata.namespace}/${metadata.name}`;
}

/** What a watched change of a VirtualCluster means for the queue and for what is remembered. */
export function onVirtualCluster(
  { type, object, previous }: StoreEvent<VirtualCluster>,
  queue: WorkQueue,
  services: Services,
  signal: AbortSignal,
): void {
  if (type === 'deleted') {
    services.claims.forget(object.metadata.uid ?? '');
    services.leaving.delete(object.metadata.uid ?? '');
    // Its place may be what another one waits for.
    for (const vc of services.virtualClusters.list()) {
      const isWaiting = vc.status?.id === undefined && vc.metadata.namespace === object.metadata.namespace;
      if (isWaiting) queue.add(keyOf(vc));
    }
  }
  if (type === 'added') {
    // One whose turn it is says at once what is done for it.
    if (object.status?.phase === undefined && !queue.hasRoom) tellPending(object, services, signal);
    queue.add(keyOf(object));
  } else if (type === 'modified' && previous !== undefined) {
    // What is under way was meant for something else.
    if (isOutdated(object, previous)) queue.interrupt(keyOf(object));
    else if (concernsUs(object, previous)) queue.add(keyOf(object));
  }
}

const requests = [annotationKeys.cancelJob, annotationKeys.retryJob, annotationKeys.renewCertificates];

/** Whether something else is wanted than before: by the spec, by deletion, or by what somebody asks for. */
export function isOutdated({ metadata }: VirtualCluster, { metadata: before }: VirtualCluster): boolean {
  return (
    metadata.generation !== before.generation ||
    metadata.deletionTimestamp !== before.deletionTimestamp ||
    requests.some((key) => metadata.annotations?.[key] !== before.annotations?.[key])
  );
}

/** Many may wait for their turn; they should not look forgotten. */
function tellPending(vc: VirtualCluster, { client, clock, logger }: Services, signal: AbortSignal): void {
  const status = new StatusWriter({ client, clock, signal, current: vc });
  status.set((current) => ({ phase: 'Pending', ...current }));
  status.flush().catch((error: unknown) => logger.debug({ err: error }, 'Pending could not be told'));
}

/** Whether a change that left the spec alone asks for a pass. Our own writes and usage figures do not. */
function concernsUs(object: VirtualCluster, previous: VirtualCluster): boolean {
  return object.metadata.deletionTimestamp !== undefined && isTakenUp(object) !== isTakenUp(previous);
}
