import { annotationKeys, labelKeys } from '../../../api/labels.ts';
import type { PodReport, SpanReport, Whose } from '../../../api/pod-report.ts';
import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import {
  type Condition,
  ConnectionError,
  connectionFromSecret,
  findCondition,
  isNotFound,
  type KubeClient,
  type KubeObject,
  resources,
} from '../../../kube/index.ts';
import type { Cli } from '../context.ts';
import { CliError } from '../errors.ts';
import { withConnection } from '../super-cluster.ts';
import { adminKubeconfig } from '../virtual-clusters.ts';

interface Pod extends KubeObject {
  spec?: { nodeName?: string };
  status?: { phase?: string; conditions?: Condition[] };
}

const requestTimeoutMs = 15_000;

/** What the pod itself and its copy in the super cluster tell of its way, in whole seconds. */
export async function traceFromObjects(
  cli: Cli,
  client: KubeClient,
  vc: VirtualCluster,
  pod: { namespace: string; name: string },
): Promise<PodReport> {
  const tenantPod = await readTenantPod(cli, client, vc, pod);
  const { items } = await client.list<Pod>(resources.pods, {
    labelSelector: `${labelKeys.tenant}=${vc.metadata.uid},${labelKeys.namespace}=${pod.namespace}`,
    fieldSelector: `metadata.name=${pod.name}`,
    signal: cli.signal,
  });
  const superPod = items.find(
    ({ metadata }) => metadata.annotations?.[annotationKeys.uid] === tenantPod.metadata.uid,
  );
  const tenant = `${vc.metadata.namespace}/${vc.metadata.name}`;
  return reportFromObjects(tenant, tenantPod, superPod, cli.clock.now());
}

/** Pure part of `traceFromObjects`. */
export function reportFromObjects(
  tenant: string,
  tenantPod: Pod,
  superPod: Pod | undefined,
  nowMs: number,
): PodReport {
  const { namespace = '', name = '', uid = '', creationTimestamp = '' } = tenantPod.metadata;
  const begin = Date.parse(creationTimestamp);
  const since = (timestamp: string | undefined): number | undefined => {
    const at = Date.parse(timestamp ?? '') - begin;
    return Number.isNaN(at) ? undefined : Math.max(0, at);
  };
  const when = (type: string): number | undefined => {
    const condition = findCondition(superPod?.status?.conditions, type);
    return condition?.status === 'True' ? since(condition.lastTransitionTime) : undefined;
  };
  const created = since(superPod?.metadata.creationTimestamp);
  const ways: readonly { name: string; whose: Whose; from: number | undefined; to: number | undefined }[] = [
    { name: 'create', whose: 'skerry', from: 0, to: created },
    { name: 'schedule', whose: 'scheduler', from: created, to: when('PodScheduled') },
    { name: 'start', whose: 'kubelet', from: when('PodScheduled'), to: when('Ready') },
  ];
  const node = superPod?.spec?.nodeName;
  const isReady = findCondition(tenantPod.status?.conditions, 'Ready')?.status === 'True';
  const readyAt = when('Ready');
  const totalMs = isReady && readyAt !== undefined ? readyAt : nowMs - begin;
  const shares: Record<Whose, number> = { skerry: 0, scheduler: 0, kubelet: 0 };
  const spans: SpanReport[] = [];
  let waitsFor: PodReport['waitsFor'];
  for (const { from, to, ...way } of ways) {
    if (from === undefined) continue;
    const end = to ?? totalMs;
    shares[way.whose] += Math.max(0, end - from);
    if (to !== undefined) spans.push({ ...way, atMs: from, tookMs: Math.max(0, to - from) });
    else if (!isReady) waitsFor ??= { ...way, sinceMs: end - from };
  }
  const named = [
    { name: 'seen', atMs: 0 },
    { name: 'created', atMs: created },
    { name: 'scheduled', atMs: when('PodScheduled') },
    { name: 'ready', atMs: readyAt },
  ];
  return {
    ...{ tenant, namespace, name, uid },
    ...(node === undefined ? {} : { node }),
    createdAt: creationTimestamp,
    seenAt: creationTimestamp,
    state: isReady ? 'ready' : 'pending',
    totalMs,
    shares,
    steps: named.flatMap(({ name: step, atMs }) => (atMs === undefined ? [] : [{ name: step, atMs }])),
    spans,
    ...(waitsFor === undefined ? {} : { waitsFor }),
  };
}

async function readTenantPod(
  cli: Cli,
  client: KubeClient,
  vc: VirtualCluster,
  { namespace, name }: { namespace: string; name: string },
): Promise<Pod> {
  const kubeconfig = await adminKubeconfig(client, vc, cli.signal);
  const tenant = vc.metadata.name ?? '';
  try {
    return await withConnection(
      { requestTimeoutMs, ...connectionFromSecret(kubeconfig) },
      async (tenantClient) => {
        try {
          return await tenantClient.get<Pod>(resources.pods, { namespace, name }, { signal: cli.signal });
        } catch (error) {
          if (!isNotFound(error)) throw error;
          throw await noSuchPod(cli, tenantClient, tenant, { namespace, name });
        }
      },
    );
  } catch (error) {
    if (!(error instanceof ConnectionError)) throw error;
    throw new CliError(
      'NotRunning',
      `the API server of ${tenant} does not answer (${error.code}): "vc-manager describe ${tenant} -n ${vc.metadata.namespace}" says what is wrong with it`,
      { cause: error },
    );
  }
}

async function noSuchPod(
  cli: Cli,
  client: KubeClient,
  tenant: string,
  { namespace, name }: { namespace: string; name: string },
): Promise<CliError> {
  const { items } = await client.list(resources.pods, {
    fieldSelector: `metadata.name=${name}`,
    signal: cli.signal,
  });
  const elsewhere = items.map(({ metadata }) => metadata.namespace);
  const hint =
    elsewhere.length > 0
      ? `there is one in namespace ${elsewhere.join(' and ')}: add -n ${elsewhere[0]}`
      : `"vc-manager trace -t ${tenant}" lists pods`;
  return new CliError('NotFound', `no pod "${name}" in namespace ${namespace} of ${tenant}: ${hint}`);
}
