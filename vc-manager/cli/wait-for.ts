import { isOverVirtualClusterLimit } from '../../api/conditions.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import {
  ApiError,
  ConnectionError,
  connectionFromSecret,
  isForbidden,
  type KubeClient,
  messageOf,
  Reflector,
  resources,
  Store,
  type StoreEvent,
} from '../../kube/index.ts';
import type { Cli } from './context.ts';
import { CliError } from './errors.ts';
import { withConnection } from './super-cluster.ts';
import {
  adminKubeconfig,
  getVirtualCluster,
  isReady,
  readyCondition,
  type VirtualClusterRef,
} from './virtual-clusters.ts';

const readyzPollMs = 200;
const refusalsUntilFailed = 3;

export interface WaitOptions {
  client: KubeClient;
  ref: VirtualClusterRef;
  clock: Cli['clock'];
  signal: AbortSignal;
  timeoutMs: number;
  /** The time counts from when this was true last. */
  isSlow?: (vc: VirtualCluster) => boolean;
  /** What is waited for, for the message of `TimedOut`: `become Ready`. */
  what: string;
  /** Called with each state; `undefined`: the object does not exist. True ends the wait, throwing rejects it. */
  until: (vc: VirtualCluster | undefined) => boolean;
  onChange?: (vc: VirtualCluster) => void;
}

/**
 * Waits for a state of one VirtualCluster. Throws `TimedOut`, what `until` throws, the answer of a super cluster that
 * refuses it, or the signal's reason.
 */
export async function waitFor(options: WaitOptions): Promise<void> {
  const { client, ref, clock, signal, timeoutMs } = options;
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const store = new Store<VirtualCluster>();
  const look = (vc: VirtualCluster | undefined): void => {
    try {
      if (options.until(vc)) resolve();
    } catch (error) {
      reject(error);
    }
  };
  let sinceMs = clock.monotonic();
  store.subscribe(({ type, object }: StoreEvent<VirtualCluster>) => {
    if (type === 'deleted') return look(undefined);
    if (options.isSlow?.(object) === true) sinceMs = clock.monotonic();
    options.onChange?.(object);
    look(object);
  });
  /** Why the super cluster says nothing; undefined: it does. */
  let silence: string | undefined;
  const ended = new AbortController();
  const running = AbortSignal.any([signal, ended.signal]);
  const reflector = new Reflector<VirtualCluster>({
    client,
    clock,
    store,
    resource: resources.virtualClusters,
    namespace: ref.namespace,
    fieldSelector: `metadata.name=${ref.name}`,
    consistentStart: true,
    onProblem: ({ error, failures }) => {
      silence = messageOf(error);
      // Rights may come a moment after the credential.
      if (isForbidden(error) && failures >= refusalsUntilFailed) reject(error);
    },
    onResourceVersion: () => {
      silence = undefined;
    },
  });
  const reflecting = reflector.run(running);
  const expire = async (): Promise<never> => {
    for (;;) {
      const leftMs = sinceMs + timeoutMs - clock.monotonic();
      if (leftMs <= 0) throw timedOut(options, store.get(ref), silence);
      await clock.sleep(leftMs, running);
    }
  };
  const late = expire();
  // An object that does not exist causes no event.
  const synced = reflector.synced(running).then(() => {
    if (store.size === 0) look(undefined);
    return promise;
  });
  try {
    await Promise.race([synced, promise, late]);
  } finally {
    ended.abort();
    resolve();
    await Promise.allSettled([reflecting, synced, late]);
  }
}

function timedOut(
  { ref, timeoutMs, what }: WaitOptions,
  last: VirtualCluster | undefined,
  silence: string | undefined,
): CliError {
  const message = last === undefined ? undefined : readyCondition(last)?.message;
  const known =
    last === undefined
      ? 'the super cluster has not answered'
      : `it is ${last.status?.phase ?? 'Pending'}${message ? ` (${message})` : ''}`;
  const state = silence === undefined ? known : `${known}, and it cannot be watched: ${silence}`;
  return new CliError(
    'TimedOut',
    `${ref.name} did not ${what} within ${timeoutMs / 1000} s; ${state}. It goes on in the background: ` +
      `see "vc-manager describe ${ref.name} -n ${ref.namespace}"`,
  );
}

/**
 * Waits until the tenant's API server answers; after a restart of the stack its status may be outdated.
 * Throws `ProvisioningFailed`, `TimedOut` or `NotFound`.
 */
export async function waitUntilUsable(
  client: KubeClient,
  ref: VirtualClusterRef,
  options: Pick<Cli, 'clock' | 'signal'> & Pick<WaitOptions, 'timeoutMs' | 'onChange' | 'isSlow'>,
): Promise<void> {
  const { clock, signal, timeoutMs } = options;
  await waitFor({ client, ref, ...options, what: 'become Ready', until: readyOrThrow(ref) });
  const deadline = clock.monotonic() + timeoutMs;
  const kubeconfig = await adminKubeconfig(client, await getVirtualCluster(client, ref, signal), signal);
  await withConnection(connectionFromSecret(kubeconfig), async (tenant) => {
    while (!(await isServing(tenant, signal))) {
      if (clock.monotonic() > deadline) {
        throw new CliError(
          'TimedOut',
          `the API server of ${ref.name} did not answer within ${timeoutMs / 1000} s: see "vc-manager describe ${ref.name} -n ${ref.namespace}"`,
        );
      }
      await clock.sleep(readyzPollMs, signal);
    }
  });
}

/** For `waitFor`: true when Ready; throws when provisioning failed, was cancelled, or the object was deleted. */
function readyOrThrow(ref: VirtualClusterRef): (vc: VirtualCluster | undefined) => boolean {
  return (vc) => {
    if (vc === undefined || vc.metadata.deletionTimestamp !== undefined) {
      throw new CliError('NotFound', `VirtualCluster ${ref.name} was deleted before it became Ready`);
    }
    if (isReady(vc)) return true;
    const ready = readyCondition(vc);
    // It may wait for ever; the wait begins again when there is room.
    if (isOverVirtualClusterLimit(vc))
      throw new CliError('ProvisioningFailed', `${ref.name} waits: ${ready?.message}`);
    const { phase, observedGeneration } = vc.status ?? {};
    if (
      (phase === 'Failed' || phase === 'Cancelled') &&
      (observedGeneration ?? 0) >= (vc.metadata.generation ?? 0)
    ) {
      throw new CliError(
        'ProvisioningFailed',
        `${ref.name} ${phase === 'Failed' ? 'has failed' : 'was cancelled'}: ${readyCondition(vc)?.message ?? `see "vc-manager describe ${ref.name} -n ${ref.namespace}"`}`,
      );
    }
    return false;
  };
}

async function isServing(tenant: KubeClient, signal: AbortSignal): Promise<boolean> {
  try {
    await tenant.raw('GET', '/readyz', { signal, timeoutMs: 5_000 });
    return true;
  } catch (error) {
    // A starting API server answers 403 until its own roles exist.
    if (error instanceof ConnectionError || error instanceof ApiError) return false;
    throw error;
  }
}
