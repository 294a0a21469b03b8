import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import { connectionFromSecret, type KubeClient, resources } from '../../../kube/index.ts';
import type { Cli } from '../context.ts';
import { describeFailure } from '../describe-failure.ts';
import type { Progress } from '../progress/index.ts';
import { withConnection } from '../super-cluster.ts';
import { adminKubeconfig, getVirtualCluster } from '../virtual-clusters.ts';
import { createSamples, observeSamples, type SampleState, sampleNamespace } from './samples.ts';
import { existingTenants, refOf, samplesKey, waitUntilUsable } from './tenants.ts';

const tenantsTimeoutMs = 180_000;
const samplesTimeoutMs = 90_000;
const lookEveryMs = 500;

export interface FurnishOptions extends Pick<Cli, 'clock'> {
  client: KubeClient;
  progress: Progress;
  signal: AbortSignal;
  withStorage: boolean;
}

/** Waits for every tenant; those that do not come in time are named, and the rest goes on. */
export async function awaitTenants({
  client,
  progress,
  clock,
  signal,
}: FurnishOptions): Promise<VirtualCluster[]> {
  const tenants = await existingTenants(client, signal);
  if (tenants.length === 0) return [];
  const waiting = new Set(tenants.map((vc) => vc.metadata.name));
  const step = progress.step(
    tenants.length === 1 ? 'Starting the tenant' : `Starting ${tenants.length} tenants`,
  );
  const tell = (): void => step.tell(`waiting for ${[...waiting].slice(0, 5).join(', ')}`);
  tell();
  const problems: string[] = [];
  const ready: VirtualCluster[] = [];
  await Promise.all(
    tenants.map(async (vc) => {
      try {
        await waitUntilUsable(client, refOf(vc), { clock, signal, timeoutMs: tenantsTimeoutMs });
        ready.push(vc);
      } catch (error) {
        if (signal.aborted) throw error;
        problems.push(describeFailure(error).message);
      }
      waiting.delete(vc.metadata.name);
      if (waiting.size > 0) tell();
    }),
  ).catch((error: unknown) => {
    step.fail();
    throw error;
  });
  if (problems.length === 0) step.done();
  else step.fail(`${ready.length} of ${tenants.length} are ready`);
  for (const problem of problems) progress.note(`  ${problem}`);
  return ready;
}

/** Puts the samples into the tenants that are marked for them, and gives their pods a while to run. */
export async function awaitSamples(
  tenants: readonly VirtualCluster[],
  options: FurnishOptions,
): Promise<void> {
  const marked = tenants.filter(({ metadata }) => metadata.annotations?.[samplesKey] === 'wanted');
  if (marked.length === 0) return;
  const { progress, signal } = options;
  const step = progress.step('Starting sample workloads');
  const states = new Map<string, SampleState>();
  const tell = (): void => {
    const sums = [...states].map(
      ([name, { running, wanted }]) => `${name} ${running}/${wanted} pods running`,
    );
    step.tell(sums.join(', '));
  };
  try {
    const results = await Promise.all(
      marked.map((vc) =>
        furnish(vc, options, (state) => {
          states.set(vc.metadata.name ?? '', state);
          tell();
        }),
      ),
    );
    const late = results.filter((problem) => problem !== undefined);
    if (late.length === 0) step.done();
    else step.fail('not all of them run');
    for (const problem of late) progress.note(`  ${problem}`);
  } catch (error) {
    step.fail();
    if (signal.aborted) throw error;
    progress.note(`  ${describeFailure(error).message}`);
  }
}

/** What is missing in the end, if anything. */
async function furnish(
  vc: VirtualCluster,
  { client, clock, signal, withStorage }: FurnishOptions,
  onState: (state: SampleState) => void,
): Promise<string | undefined> {
  const ref = refOf(vc);
  const kubeconfig = await adminKubeconfig(client, await getVirtualCluster(client, ref, signal), signal);
  return withConnection(connectionFromSecret(kubeconfig), async (tenant) => {
    await createSamples({ client: tenant, signal, withStorage });
    const annotations = { [samplesKey]: 'made' };
    await client.patch(
      resources.virtualClusters,
      ref,
      { metadata: { annotations } },
      { type: 'merge', signal },
    );
    const deadline = clock.monotonic() + samplesTimeoutMs;
    for (;;) {
      const state = await observeSamples(tenant, signal);
      onState(state);
      if (state.running >= state.wanted) return undefined;
      if (clock.monotonic() > deadline) {
        return (
          `only ${state.running} of ${state.wanted} sample pods run in ${ref.name} after ${samplesTimeoutMs / 1000} s; it goes on. ` +
          `Look at them with: kubectl -n ${sampleNamespace} get pods,events`
        );
      }
      await clock.sleep(lookEveryMs, signal);
    }
  });
}
