import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import { Reflector, resources, Store } from '../../../kube/index.ts';
import type { LocalStack } from '../../local-stack/index.ts';
import type { Cli } from '../context.ts';
import type { Progress } from '../progress/index.ts';
import { withConnection } from '../super-cluster.ts';
import { readyCondition } from '../virtual-clusters.ts';

export interface EventOptions extends Pick<Cli, 'clock'> {
  stack: LocalStack | undefined;
  superCluster: Parameters<typeof withConnection>[0];
  progress: Progress;
  signal: AbortSignal;
}

/** Tells what happens to components and tenants until aborted. */
export async function tellEvents({
  stack,
  superCluster,
  progress,
  clock,
  signal,
}: EventOptions): Promise<void> {
  const tell = (message: string): void =>
    progress.note(`${new Date(clock.now()).toTimeString().slice(0, 8)} ${message}`);
  const stopWatching = stack?.driver.watch((_, component, what) => {
    if (signal.aborted) return;
    tell(what === 'exited' ? `${component} has exited; starting it again` : `${component} was started`);
  });
  const virtualClusters = new Store<VirtualCluster>();
  let isFirstList = true;
  virtualClusters.subscribe(({ type, object, previous }) => {
    const message = isFirstList ? undefined : describeChange(type, object, previous);
    if (message !== undefined) tell(message);
  });
  await withConnection(superCluster, async (client) => {
    const reflector = new Reflector({
      client,
      clock,
      resource: resources.virtualClusters,
      store: virtualClusters,
    });
    const running = reflector.run(signal);
    await reflector.synced(signal).catch(() => undefined);
    isFirstList = false;
    await running;
  });
  stopWatching?.();
}

/** One line about what people want to know; undefined for the rest. */
export function describeChange(
  type: 'added' | 'modified' | 'deleted',
  object: VirtualCluster,
  previous: VirtualCluster | undefined,
): string | undefined {
  const name = `tenant ${object.metadata.namespace}/${object.metadata.name}`;
  if (type === 'added') return `${name} was created`;
  if (type === 'deleted') return `${name} is gone`;
  const phase = object.status?.phase;
  if (phase === previous?.status?.phase || phase === undefined) return undefined;
  if (phase === 'Ready') return `${name} is Ready at ${object.status?.endpoint}`;
  if (phase === 'Failed') return `${name} has failed: ${readyCondition(object)?.message ?? 'see describe'}`;
  return phase === 'Deleting' ? `${name} is being deleted` : undefined;
}
