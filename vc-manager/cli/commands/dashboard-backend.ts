import type { ControlPlaneTemplate } from '../../../api/control-plane-template.ts';
import { defaultDriver } from '../../../api/drivers.ts';
import { annotationKeys, labelKeys } from '../../../api/labels.ts';
import type { KeptSnapshot, VirtualCluster } from '../../../api/virtual-cluster.ts';
import type { Action, Backend, SuperCluster, TenantRef } from '../../../dashboard/backend.ts';
import type { ComponentRow, EventRow, ListedPod, Preview } from '../../../dashboard/types.ts';
import { apiVersionOf, findCondition, type KubeClient, printable, resources } from '../../../kube/index.ts';
import type { ComponentObservation, ControlPlaneDriver } from '../../drivers/driver.ts';
import type { Cli } from '../context.ts';
import type { BackendContext } from '../dashboard/serve.ts';
import { readOnlyDriver } from '../drivers.ts';
import { CliError, describeFailure, exitCodes } from '../errors.ts';
import { jobsOf } from '../job-table.ts';
import { sendRequest } from '../manager-request.ts';
import { tenantKubeconfig } from '../tenant-kubeconfig.ts';
import {
  adminKubeconfig,
  failingConditions,
  getVirtualCluster,
  problems,
  quotaOf,
} from '../virtual-clusters.ts';
import { waitFor } from '../wait-for.ts';
import { refuseIfNotRunning } from './certificates.ts';
import { createVirtualCluster, refuseInvalid } from './create.ts';
import { describeDeletion, refuseProtected } from './delete.ts';
import { advice } from './describe.ts';
import { type Event, eventsOf, latestTenantEvents, shownEvent } from './events.ts';
import { withTenantName } from './logs.ts';
import { shareOf } from './quota.ts';
import { refuseSleep, refuseWake } from './sleep.ts';
import { expectedSnapshot, refuseUnmade, snapshotRequest } from './snapshot.ts';
import { findReplicas, type Pod, slowestPods, tracePod } from './trace.ts';
import { beginUpgrade, describeUpgrade, planUpgrade } from './upgrade.ts';

const maxEvents = 500;
const slowestShown = 50;
const maxPods = 200;

/** What the commands do, for the dashboard. */
export function dashboardBackend(context: BackendContext): Backend {
  const { clock, systemNamespace } = context;
  return {
    assess: (vc) => ({
      problems: problems(vc),
      failing: failingConditions(vc).map(({ type }) => type),
      advice: advice(vc, clock.now()),
      quota: quotaOf(vc).map((row) => {
        const share = shareOf(row);
        return share === undefined ? row : { ...row, share };
      }),
      jobs: jobsOf(vc).map(({ namespace: _namespace, tenant: _tenant, ...job }) => job),
    }),
    events: async (client, vc, signal) => latestFirst(await eventsOf(client, refOf(vc), vc, signal)),
    refusals: async (tenant, signal) => {
      const { events, isCut } = await latestTenantEvents(tenant, maxEvents, signal);
      return { events: latestFirst(events), isCut };
    },
    trace: async ({ person, program }, vc, pod, signal) => {
      const replicas = await findReplicas(program, systemNamespace, signal);
      const { source, report } = await tracePod(
        { signal, clock },
        person,
        vc,
        replicas,
        pod,
        systemNamespace,
      );
      return { source, ...report };
    },
    slowest: async (program, vc, signal) => {
      const replicas = await findReplicas(program, systemNamespace, signal);
      return slowestPods(vc, replicas, { slowest: slowestShown, systemNamespace, signal });
    },
    pods: async (client, { metadata }, signal) => {
      const labelSelector = `${labelKeys.tenant}=${metadata.uid}`;
      const options = { labelSelector, limit: maxPods, signal };
      const { items, metadata: list } = await client.list<Pod>(resources.pods, options);
      const listed = items.flatMap((pod) => {
        const namespace = pod.metadata.labels?.[labelKeys.namespace];
        return namespace === undefined ? [] : [{ ...listedPod(pod, namespace), node: pod.spec?.nodeName }];
      });
      return { listed, isCut: (list.continue ?? '') !== '' };
    },
    ownPods: async (tenant, signal) => {
      const { items, metadata } = await tenant.list<Pod>(resources.pods, { limit: maxPods, signal });
      const listed = items.slice(0, maxPods).map((pod) => listedPod(pod, pod.metadata.namespace ?? ''));
      return { listed, isCut: items.length > maxPods || (metadata.continue ?? '') !== '' };
    },
    components: async (program, vc) => {
      const found = await controlPlaneOf(context, program, vc);
      if (found === undefined) return [];
      const { components } = await found.driver.observe(found.id);
      return components.map(componentRow);
    },
    logs: async (program, vc, { component, lines, signal }) => {
      const found = await controlPlaneOf(context, program, vc);
      if (found === undefined)
        throw new CliError(
          'NotFound',
          `the control plane of ${vc.metadata.name} does not run where this dashboard does`,
        );
      const all: string[] = [];
      try {
        for await (const line of found.driver.logs(found.id, component, { tailLines: lines, signal }))
          all.push(line);
      } catch (error) {
        throw withTenantName(error, found.id, vc.metadata.name ?? '');
      }
      return all.slice(-lines);
    },
    kubeconfig: adminKubeconfig,
    operatorKubeconfig: async (client, vc, { user, signal }) =>
      tenantKubeconfig(client, vc, { clock, signal, user }),
    versions: async (client, signal) => {
      const { items } = await client.list<ControlPlaneTemplate>(resources.controlPlaneTemplates, { signal });
      const all = new Set(items.map(({ spec }) => spec.kubernetesVersion));
      return [...all].sort((a, b) => b.localeCompare(a, 'en', { numeric: true }));
    },
    preview,
    act: async (superCluster, ref, action, signal) => act(superCluster, ref, action, { signal, clock }),
    explain: (error) => {
      const { message, exitCode } = describeFailure(error);
      return { status: statusOf[exitCode] ?? 500, message };
    },
  };
}

const statusOf: Readonly<Record<number, number>> = {
  [exitCodes.usage]: 400,
  [exitCodes.notFound]: 404,
  [exitCodes.timedOut]: 504,
  [exitCodes.unreachable]: 502,
  [exitCodes.conflict]: 409,
  [exitCodes.forbidden]: 403,
};

function refOf({ metadata }: VirtualCluster): TenantRef & { namespace: string; name: string } {
  return { namespace: metadata.namespace ?? '', name: metadata.name ?? '' };
}

/** What an object of a tenant's API server says may be of any length. */
function listedPod({ metadata, status }: Pod, namespace: string): ListedPod {
  const text = (each: unknown): string => (typeof each === 'string' ? printable(each, 253) : '');
  return {
    namespace: text(namespace),
    name: text(metadata.name),
    phase: text(status?.phase),
    isReady: findCondition(status?.conditions, 'Ready')?.status === 'True',
    createdAt: text(metadata.creationTimestamp),
  };
}

function latestFirst(events: readonly Event[]): EventRow[] {
  return events
    .map(shownEvent)
    .sort((a, b) => (a.at < b.at ? 1 : -1))
    .slice(0, maxEvents);
}

async function controlPlaneOf(
  { clock, stateDir, onProblem }: BackendContext,
  client: KubeClient,
  { status }: VirtualCluster,
): Promise<{ driver: ControlPlaneDriver; id: string } | undefined> {
  const id = status?.id;
  if (id === undefined) return undefined;
  const driver = readOnlyDriver(status?.driver ?? defaultDriver, { stateDir, client, clock, onProblem });
  return (await driver.list()).includes(id) ? { driver, id } : undefined;
}

function componentRow({ name, state, startedAt, restarts, lastExit }: ComponentObservation): ComponentRow {
  const how = lastExit?.signal ?? (lastExit?.code === undefined ? 'unknown' : `code ${lastExit.code}`);
  return {
    name,
    state,
    restarts,
    startedAt: startedAt?.toISOString(),
    lastExit: lastExit && `${lastExit.at.toISOString()} (${how})`,
  };
}

async function preview(
  { person, program }: SuperCluster,
  ref: { namespace: string; name: string },
  action: Action,
  signal: AbortSignal,
): Promise<Preview> {
  const vc = await getVirtualCluster(person, ref, signal);
  if (action.do === 'upgrade') {
    const plan = await planUpgrade(person, vc, action.version, signal, program);
    return {
      text: describeUpgrade(vc, plan),
      isPossible: plan.change !== undefined,
      needsForce: (plan.removed?.length ?? 0) > 0,
    };
  }
  if (action.do === 'delete') {
    refuseProtected(vc);
    if (action.snapshotFirst) refuseUnmade(vc);
    return { text: describeDeletion(vc), isPossible: true, needsForce: false };
  }
  return { text: '', isPossible: true, needsForce: false };
}

/** A proxy in front of the dashboard gives an answer up after a minute, as a rule. */
const snapshotTimeoutMs = 50_000;

/**
 * As `delete --snapshot-first`: resolves once a snapshot is kept. It is watched as the program, as the person need not be
 * allowed to watch. Throws `TimedOut`, and what the command does.
 */
async function keep(
  { person, program }: SuperCluster,
  vc: VirtualCluster,
  { signal, clock }: { signal: AbortSignal; clock: Cli['clock'] },
): Promise<KeptSnapshot> {
  const ref = refOf(vc);
  const request = snapshotRequest({ clock }, person, ref);
  const { until, kept } = expectedSnapshot(vc, request);
  await sendRequest(request, signal);
  try {
    await waitFor({
      ...{ client: program, ref, clock, signal, timeoutMs: snapshotTimeoutMs, what: 'take a snapshot' },
      until: (found) => {
        if (found === undefined) throw new CliError('NotFound', `${ref.name} is gone`);
        return until(found);
      },
    });
  } catch (error) {
    if (!(error instanceof CliError && error.code === 'TimedOut')) throw error;
    throw new CliError(
      'TimedOut',
      `the snapshot of ${ref.name} is still being taken, and nothing was deleted: delete it without another one when that is kept`,
    );
  }
  return kept();
}

/** The same checks as those of the command of that name. */
async function act(
  superCluster: SuperCluster,
  ref: { namespace: string; name: string },
  action: Action,
  { signal, clock }: { signal: AbortSignal; clock: Cli['clock'] },
): Promise<string> {
  const { person: client, program } = superCluster;
  const { name } = ref;
  if (action.do === 'create') {
    const { version, weight, podSecurity, deletionProtection } = action;
    const wanted = {
      apiVersion: apiVersionOf(resources.virtualClusters),
      kind: 'VirtualCluster',
      metadata: { ...ref },
      spec: { version, weight, policy: podSecurity && { podSecurity }, deletionProtection },
    } as VirtualCluster;
    refuseInvalid(wanted);
    await createVirtualCluster(client, wanted, signal);
    return `${name} is being made`;
  }
  const vc = await getVirtualCluster(client, ref, signal);
  const value = new Date(clock.now()).toISOString();
  const ask = (annotation: string, wanted = value) =>
    sendRequest({ client, ref, annotation, value: wanted }, signal);
  switch (action.do) {
    case 'sleep':
      refuseSleep(vc);
      await ask(annotationKeys.sleep);
      return `${name} is asked to sleep`;
    case 'wake':
      refuseWake(vc);
      await ask(annotationKeys.wake);
      return `${name} is woken`;
    case 'snapshot':
      refuseUnmade(vc);
      await ask(annotationKeys.snapshot);
      return `a snapshot of ${name} is asked for`;
    case 'renew':
      refuseIfNotRunning(vc);
      await ask(annotationKeys.renewCertificates);
      return `new certificates for ${name} are asked for`;
    case 'retry':
      await ask(annotationKeys.retryJob);
      return `${name} is tried again`;
    case 'cancel': {
      const current = vc.status?.jobs?.current;
      if (current === undefined) throw new CliError('Conflict', `nothing is under way for ${name}`);
      await ask(annotationKeys.cancelJob, current.id);
      return `the manager is asked to cancel the ${current.kind} of ${name}`;
    }
    case 'upgrade': {
      const plan = await planUpgrade(client, vc, action.version, signal, program);
      if (plan.change === undefined) return describeUpgrade(vc, plan).trim();
      await beginUpgrade(client, vc, plan, action.force === true, { signal, clock });
      return `${name} goes from ${plan.change.from} to ${plan.change.to}`;
    }
    case 'delete': {
      refuseProtected(vc);
      // The super cluster refuses to delete another one of that name; nothing is asked of that one either.
      const isIt = vc.metadata.uid === action.uid;
      const kept = action.snapshotFirst && isIt ? await keep(superCluster, vc, { signal, clock }) : undefined;
      await client.delete(resources.virtualClusters, ref, { uid: action.uid, signal });
      return `${name} is being deleted${kept === undefined ? '' : `, and kept as ${kept.name}`}`;
    }
  }
}
