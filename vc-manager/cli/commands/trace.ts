import { type Command, Option } from 'commander';
import { annotationKeys, labelKeys, syncerSelector } from '../../../api/labels.ts';
import {
  type PodList,
  type PodReport,
  podStages,
  type SpanReport,
  type StageOwner,
} from '../../../api/pod-report.ts';
import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import {
  type Condition,
  ConnectionError,
  findCondition,
  ignoreNotFound,
  isForbidden,
  type KubeClient,
  type KubeObject,
  type Lease,
  namespacedName,
  printable,
  resources,
  withoutUndefined,
} from '../../../kube/index.ts';
import { systemNamespaceOption } from '../../../program/flags.ts';
import { wholeNumber } from '../arguments.ts';
import { withCompletion, wordsOnly } from '../command-line.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { CliError, invalidArgument } from '../errors.ts';
import { elapsed, serialize, table } from '../output.ts';
import { withConnection, withSuperCluster } from '../super-cluster.ts';
import {
  backgroundConnection,
  checkNamespace,
  getVirtualCluster,
  listTenants,
  programLogs,
  validRef,
} from '../virtual-clusters.ts';

interface Flags extends GlobalFlags {
  tenant?: string;
  namespace?: string;
  slowest?: number | true;
  syncer?: string;
  systemNamespace: string;
  output?: 'json' | 'yaml';
}

const listedByDefault = 10;
const maxListed = 1_000;
const podName = /^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$/;

const help = `
The syncer keeps the times of the latest 10,000 pods that came since it took their tenant up, as when it was started or the
tenant woke. For older ones, times are taken from the objects, in whole seconds.

Examples:
  vc-manager trace web-6d5f8-x2x7k -n shop -t team-blue      where the time went
  vc-manager trace -t team-blue                               the slowest pods of a tenant, and what is usual
  vc-manager trace -t teams/blue --slowest 50 -o json`;

export function configure(command: Command, cli: Cli): void {
  command
    .argument('[pod]', 'its name in the tenant (default: list the slowest ones)')
    .option('-n, --namespace <namespace>', 'its namespace in the tenant (default: default; listing: all)')
    .addOption(
      // This command's --namespace is one inside the tenant, so that it does not narrow the choice of tenants.
      withCompletion(
        new Option('-t, --tenant <[namespace/]name>', 'the VirtualCluster (default: the only one)'),
        async ({ tenants }) => wordsOnly(await tenants()),
      ),
    )
    .addOption(
      new Option(
        '--slowest [pods]',
        `list so many of the slowest pods (default: ${listedByDefault})`,
      ).argParser(wholeNumber(1, maxListed)),
    )
    .option('--syncer <url>', 'ask the syncer at this address instead of those that have a Lease')
    .addOption(systemNamespaceOption('where the syncers have their Leases'))
    .addOption(
      new Option('-o, --output <format>', 'print it as a program reads it').choices(['json', 'yaml']),
    )
    .addHelpText('after', help)
    .action(async (pod: string | undefined, _, chosen: Command) =>
      trace(cli, pod, chosen.optsWithGlobals<Flags>()),
    );
}

async function trace(cli: Cli, pod: string | undefined, flags: Flags): Promise<void> {
  if (pod !== undefined && flags.slowest !== undefined)
    throw invalidArgument('give either a POD or --slowest');
  if (flags.namespace !== undefined) checkNamespace(flags.namespace);
  if (pod !== undefined && !podName.test(pod))
    throw invalidArgument(
      pod.includes('/')
        ? `"${pod}" is no name of a pod: give its namespace with --namespace`
        : `"${pod}" is no name of a pod: those have lower-case letters, digits, dashes and dots`,
    );
  const named = flags.tenant === undefined ? undefined : tenantRef(flags.tenant);
  // Before anything is asked.
  if (flags.syncer !== undefined) replicaAt(flags.syncer);
  await withSuperCluster(cli, flags, async (client) => {
    const vc =
      named === undefined
        ? await onlyTenant(client, cli)
        : await getVirtualCluster(client, named, cli.signal);
    const replicas = await replicasToAsk(client, flags, cli.signal);
    if (pod === undefined) await listSlowest(cli, vc, replicas, flags);
    else
      await showPod(cli, client, vc, replicas, { namespace: flags.namespace ?? 'default', name: pod }, flags);
  });
}

async function showPod(
  cli: Cli,
  client: KubeClient,
  vc: VirtualCluster,
  replicas: readonly Replica[],
  pod: { namespace: string; name: string },
  flags: Flags,
): Promise<void> {
  const traced = await tracePod(cli, client, vc, replicas, pod, flags.systemNamespace);
  if (traced.source === 'syncer') {
    const { source, syncer, report } = traced;
    cli.stdout.write(
      flags.output
        ? serialize(flags.output, { source, syncer, ...report })
        : waterfall(report, 'milliseconds'),
    );
    return;
  }
  const { source, why, report } = traced;
  cli.stderr.write(
    `note: ${why}. The times below come from what the objects themselves say: in whole seconds, and only of their latest changes\n`,
  );
  cli.stdout.write(
    flags.output ? serialize(flags.output, { source, ...report }) : waterfall(report, 'seconds'),
  );
}

type Traced =
  | { source: 'syncer'; syncer: string; report: PodReport }
  /** `why`: what keeps the syncers from answering. */
  | { source: 'objects'; why: string; report: PodReport };

/** The way of a pod as a syncer has measured it, else as the objects themselves say. */
export async function tracePod(
  cli: Pick<Cli, 'signal' | 'clock'>,
  client: KubeClient,
  vc: VirtualCluster,
  replicas: readonly Replica[],
  pod: { namespace: string; name: string },
  systemNamespace: string,
): Promise<Traced> {
  const tenant = namespacedName(vc.metadata);
  const answers = await queryReplicas<PodReport>(replicas, { tenant, ...pod }, cli.signal);
  const known = answers.find((answer) => answer.is === 'answer');
  if (known !== undefined) {
    const report = { ...known.body, ...(await refusalOf(cli, client, vc, known.body)) };
    return { source: 'syncer', syncer: known.replica.name, report };
  }
  const report = await traceFromObjects(cli, client, vc, pod);
  return { source: 'objects', why: explainNoAnswer(answers, tenant, systemNamespace), report };
}

/** The syncer knows since when it waits, and the tenant's pod why. */
async function refusalOf(
  cli: Pick<Cli, 'signal'>,
  client: KubeClient,
  vc: VirtualCluster,
  { state, waitsFor, uid, namespace, name }: PodReport,
): Promise<{ refusal?: string }> {
  if (state !== 'pending' || waitsFor?.whose !== 'skerry') return {};
  try {
    const pod = await readTenantPod(cli, client, vc, { namespace, name });
    return pod.metadata.uid === uid ? refusalIn(pod) : {};
  } catch (error) {
    cli.signal.throwIfAborted();
    if (!(error instanceof Error)) throw error;
    return {};
  }
}

/** Of a pod without a copy in the super cluster. */
function refusalIn({ status }: Pod): { refusal?: string } {
  const scheduled = findCondition(status?.conditions, 'PodScheduled');
  return scheduled?.status === 'False' && scheduled.message ? { refusal: scheduled.message } : {};
}

async function listSlowest(
  cli: Cli,
  vc: VirtualCluster,
  replicas: readonly Replica[],
  flags: Flags,
): Promise<void> {
  const tenant = namespacedName(vc.metadata);
  const slowest = typeof flags.slowest === 'number' ? flags.slowest : listedByDefault;
  const list = await slowestPods(vc, replicas, { ...flags, slowest, signal: cli.signal });
  cli.stdout.write(flags.output ? serialize(flags.output, list) : slowestTable(list));
  if (flags.output === undefined && list.known === 0) {
    const where = flags.namespace === undefined ? '' : ` in namespace ${flags.namespace}`;
    cli.stderr.write(
      `No pod of ${tenant}${where} has come since the syncer took the tenant up, as when it was started or the tenant woke. ` +
        'Of one from before, its objects tell: name it.\n',
    );
  }
}

/** Throws `NotRunning` when no syncer answers for the tenant. */
export async function slowestPods(
  vc: VirtualCluster,
  replicas: readonly Replica[],
  options: { slowest: number; namespace?: string | undefined; systemNamespace: string; signal: AbortSignal },
): Promise<PodList> {
  const tenant = namespacedName(vc.metadata);
  const { namespace } = options;
  const query = { tenant, slowest: String(options.slowest), ...withoutUndefined({ namespace }) };
  const answers = await queryReplicas<PodList>(replicas, query, options.signal);
  const lists = answers.flatMap((answer) => (answer.is === 'answer' ? [answer.body] : []));
  // During a hand-over two syncers may answer for a tenant; the one that serves it knows more pods.
  const [list] = lists.toSorted((a, b) => b.known - a.known);
  if (list === undefined)
    throw new CliError('NotRunning', explainNoAnswer(answers, tenant, options.systemNamespace));
  return list;
}

function tenantRef(text: string): { namespace: string; name: string } {
  const [first = '', second, more] = text.split('/');
  if (more !== undefined) throw invalidArgument(`"${text}" is no tenant: give NAME or NAMESPACE/NAME`);
  return second === undefined ? validRef(first, 'default') : validRef(second, first);
}

async function onlyTenant(client: KubeClient, { signal }: Cli): Promise<VirtualCluster> {
  const items = await listTenants(client, { signal }, 'name the tenant with -t NAMESPACE/NAME');
  const [only, another] = items;
  if (only === undefined)
    throw new CliError('NotFound', 'there are no tenants: "vc-manager create NAME --wait" makes one');
  if (another === undefined) return only;
  const some = items
    .slice(0, 3)
    .map(({ metadata }) => namespacedName(metadata))
    .join(', ');
  throw invalidArgument(
    `there are ${items.length} tenants (${some}${items.length > 3 ? ', ..' : ''}): add -t NAME`,
  );
}

/** A syncer whose Lease names the address of its debug endpoint. */
interface Replica {
  name: string;
  url: string;
}

/** Result of a query to one syncer. */
type ReplicaAnswer<T> =
  | { is: 'answer'; replica: Replica; body: T }
  /** The syncer does not serve the tenant, or does not know the pod. */
  | { is: 'UnknownTenant' | 'UnknownPod'; replica: Replica }
  | { is: 'unreachable'; replica: Replica; why: string };

const replicaTimeoutMs = 10_000;

/** The syncers that hold a Lease; a Lease without a holder was released and does not count. */
export async function findReplicas(
  client: KubeClient,
  namespace: string,
  signal: AbortSignal,
): Promise<Replica[]> {
  const { items } = await client.list<Lease>(resources.leases, {
    namespace,
    labelSelector: syncerSelector,
    signal,
  });
  return items.flatMap(({ metadata, spec }) => {
    const url = metadata.annotations?.[annotationKeys.metricsAddress] ?? '';
    if ((spec?.holderIdentity ?? '') === '' || !isHttp(url)) return [];
    return [{ name: metadata.name ?? '', url }];
  });
}

/** The syncer that `--syncer` names, else those that hold a Lease. Throws `Forbidden` naming the remedies. */
export async function replicasToAsk(
  client: KubeClient,
  { syncer, systemNamespace }: { syncer?: string; systemNamespace: string },
  signal: AbortSignal,
): Promise<Replica[]> {
  if (syncer !== undefined) return [replicaAt(syncer)];
  try {
    return await findReplicas(client, systemNamespace, signal);
  } catch (error) {
    if (!isForbidden(error)) throw error;
    const said = error.status?.message ?? error.message;
    throw new CliError(
      'Forbidden',
      `${said}. Syncers are found by their Leases: ask for the right to list leases in ${systemNamespace}, ` +
        'or give the address of a syncer with --syncer http://HOST:PORT',
      { cause: error },
    );
  }
}

/** Queries all replicas at once. */
export function queryReplicas<T>(
  replicas: readonly Replica[],
  query: Readonly<Record<string, string>>,
  signal: AbortSignal,
  page = '/debug/pods',
): Promise<ReplicaAnswer<T>[]> {
  return Promise.all(replicas.map((replica) => queryReplica<T>(replica, query, signal, page)));
}

/** Throws `InvalidArgument` when `url` is not an HTTP address. */
export function replicaAt(url: string): Replica {
  if (isHttp(url)) return { name: url, url };
  throw new CliError('InvalidArgument', `"${url}" is no address: give it as in http://127.0.0.1:10451`);
}

/** Why no syncer could answer, and what the user can do. */
export function explainNoAnswer(
  answers: readonly ReplicaAnswer<unknown>[],
  tenant: string,
  namespace: string,
): string {
  const [vcNamespace, name] = tenant.split('/');
  if (answers.length === 0) {
    return (
      `no syncer has a Lease in namespace ${namespace}, so none can be asked. Is one running? ` +
      programLogs('syncer', namespace)
    );
  }
  const knows = answers.find(({ is }) => is === 'UnknownPod');
  if (knows !== undefined) {
    return `the syncer ${knows.replica.name} does not remember this pod: it was there before that syncer took the tenant over, or many have come since`;
  }
  const [away] = answers.filter((answer) => answer.is === 'unreachable');
  if (away !== undefined) {
    return (
      `the syncer ${away.replica.name} cannot be asked at ${away.replica.url} (${away.why}): run this on its ` +
      'machine, or forward that port and add --syncer http://127.0.0.1:PORT'
    );
  }
  return `no syncer serves ${tenant} at the moment: "vc-manager describe ${name} -n ${vcNamespace}" says why`;
}

async function queryReplica<T>(
  replica: Replica,
  query: Readonly<Record<string, string>>,
  signal: AbortSignal,
  page: string,
): Promise<ReplicaAnswer<T>> {
  const url = new URL(page, replica.url);
  url.search = new URLSearchParams(query).toString();
  try {
    const response = await fetch(url, {
      signal: AbortSignal.any([signal, AbortSignal.timeout(replicaTimeoutMs)]),
    });
    const body = (await response.json()) as { reason?: string; message?: string };
    if (response.ok) return { is: 'answer', replica, body: body as T };
    if (body.reason === 'UnknownTenant' || body.reason === 'UnknownPod') return { is: body.reason, replica };
    return { is: 'unreachable', replica, why: body.message ?? `HTTP ${response.status}` };
  } catch (error) {
    signal.throwIfAborted();
    return { is: 'unreachable', replica, why: reasonOf(error) };
  }
}

/** `fetch` keeps the reason of a failure in `cause`. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error instanceof SyntaxError) return 'its answer is not that of a syncer';
  if (error.name === 'TimeoutError') return `no answer within ${replicaTimeoutMs / 1_000} s`;
  const { code, message } = (error.cause ?? error) as NodeJS.ErrnoException;
  return code ?? message;
}

function isHttp(url: string): boolean {
  return URL.canParse(url) && /^https?:$/.test(new URL(url).protocol);
}

export interface Pod extends KubeObject {
  spec?: { nodeName?: string };
  status?: { phase?: string; conditions?: Condition[] };
}

const tenantTimeoutMs = 15_000;

/** A report made from the conditions of the pod and of its copy in the super cluster, in whole seconds. */
async function traceFromObjects(
  cli: Pick<Cli, 'signal' | 'clock'>,
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
  const tenant = namespacedName(vc.metadata);
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
  const ways: readonly {
    name: string;
    whose: StageOwner;
    from: number | undefined;
    to: number | undefined;
  }[] = [
    { name: 'create', whose: 'skerry', from: 0, to: created },
    { name: 'schedule', whose: 'scheduler', from: created, to: when('PodScheduled') },
    { name: 'start', whose: 'kubelet', from: when('PodScheduled'), to: when('Ready') },
  ];
  const node = superPod?.spec?.nodeName;
  const isReady = findCondition(tenantPod.status?.conditions, 'Ready')?.status === 'True';
  const readyAt = when('Ready');
  const totalMs = isReady && readyAt !== undefined ? readyAt : nowMs - begin;
  const shares: Record<StageOwner, number> = { skerry: 0, scheduler: 0, kubelet: 0 };
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
    ...withoutUndefined({ node }),
    createdAt: creationTimestamp,
    seenAt: creationTimestamp,
    state: isReady ? 'ready' : 'pending',
    totalMs,
    shares,
    steps: named.flatMap(({ name: step, atMs }) => (atMs === undefined ? [] : [{ name: step, atMs }])),
    spans,
    ...(superPod === undefined ? refusalIn(tenantPod) : {}),
    ...withoutUndefined({ waitsFor }),
  };
}

async function readTenantPod(
  cli: Pick<Cli, 'signal'>,
  client: KubeClient,
  vc: VirtualCluster,
  { namespace, name }: { namespace: string; name: string },
): Promise<Pod> {
  const { name: tenant = '', namespace: vcNamespace } = vc.metadata;
  if (vc.status?.phase === 'Asleep')
    throw new CliError(
      'NotRunning',
      `${tenant} is asleep: "vc-manager wake ${tenant} -n ${vcNamespace}" starts its API server`,
    );
  const connection = await backgroundConnection(client, vc, cli.signal);
  try {
    return await withConnection(
      { requestTimeoutMs: tenantTimeoutMs, ...connection },
      async (tenantClient) => {
        const ref = { namespace, name };
        const found = await ignoreNotFound(
          tenantClient.get<Pod>(resources.pods, ref, { signal: cli.signal }),
        );
        if (found === undefined) throw await noSuchPod(cli, tenantClient, vc, ref);
        return found;
      },
    );
  } catch (error) {
    if (!(error instanceof ConnectionError)) throw error;
    throw new CliError(
      'NotRunning',
      `the API server of ${tenant} does not answer (${error.code}): "vc-manager describe ${tenant} -n ${vcNamespace}" says what is wrong with it`,
      { cause: error },
    );
  }
}

/** Namespaces that are named when a pod was asked for in the wrong one. */
const maxElsewhere = 5;
const longestName = 253;

async function noSuchPod(
  cli: Pick<Cli, 'signal'>,
  client: KubeClient,
  { metadata }: VirtualCluster,
  { namespace, name }: { namespace: string; name: string },
): Promise<CliError> {
  const tenant = metadata.name ?? '';
  const whose = metadata.namespace === 'default' ? tenant : `${metadata.namespace}/${tenant}`;
  const { items } = await client.list(resources.pods, {
    fieldSelector: `metadata.name=${name}`,
    limit: maxElsewhere,
    signal: cli.signal,
  });
  const elsewhere = items
    .slice(0, maxElsewhere)
    .map((pod) => printable(pod.metadata.namespace ?? '', longestName));
  const hint =
    elsewhere.length > 0
      ? `there is one in namespace ${elsewhere.join(' and ')}: add -n ${elsewhere[0]}`
      : `"vc-manager trace -t ${whose}" lists pods`;
  return new CliError('NotFound', `no pod "${name}" in namespace ${namespace} of ${tenant}: ${hint}`);
}

const whoseNames: Readonly<Record<StageOwner, string>> = {
  skerry: 'Skerry',
  scheduler: 'scheduler',
  kubelet: 'kubelet',
};

/** Explanation of a span; empty for an unknown one. */
function aboutSpan(name: string): string {
  return podStages[name] ?? '';
}

const barWidth = 32;
const order: readonly StageOwner[] = ['skerry', 'scheduler', 'kubelet'];

/** How times are written: a syncer reports tenths of milliseconds, objects carry whole seconds. */
type Precision = 'milliseconds' | 'seconds';

/** Facts about one pod, then a line for each span with a bar that shows its place in the whole time. */
export function waterfall(report: PodReport, precision: Precision): string {
  const facts = table(undefined, [
    ['Pod:', namespacedName(report)],
    ['Tenant:', report.tenant],
    ['Node:', report.node ?? '-'],
    [precision === 'seconds' ? 'Created:' : 'Seen:', report.seenAt],
    [...outcome(report, precision)],
    ['Shares:', shares(report, precision)],
  ]);
  if (report.spans.length === 0) return facts;
  const at = aligned(report.spans.map(({ atMs }) => formatMs(atMs, precision)));
  const took = aligned(report.spans.map(({ tookMs }) => formatMs(tookMs, precision)));
  const rows = report.spans.map(({ name, whose, atMs, tookMs }, index) => [
    name,
    whoseNames[whose],
    at[index] ?? '',
    took[index] ?? '',
    bar(atMs, tookMs, report.totalMs),
    aboutSpan(name),
  ]);
  return `${facts}\n${table(['STEP', 'WHOSE', 'AT', 'TOOK', '', ''], rows)}`;
}

/** `3.4 ms`, `120 ms`, `3.2 s`; in seconds `3 s`. */
export function formatMs(ms: number, precision: Precision = 'milliseconds'): string {
  if (precision === 'seconds' || ms >= 10_000)
    return precision === 'seconds' && ms < 120_000 ? `${Math.round(ms / 1_000)} s` : elapsed(ms);
  if (ms >= 1_000) return `${(ms / 1_000).toFixed(2)} s`;
  return ms >= 100 ? `${Math.round(ms)} ms` : `${ms.toFixed(1)} ms`;
}

/** `Skerry 14.2 ms (34 %), scheduler ...` */
function shares({ shares: of, totalMs }: PodReport, precision: Precision): string {
  const percent = (ms: number): number => (totalMs === 0 ? 0 : Math.round((ms / totalMs) * 100));
  return order
    .map((whose) => `${whoseNames[whose]} ${formatMs(of[whose], precision)} (${percent(of[whose])} %)`)
    .join(', ');
}

function outcome({ state, totalMs, waitsFor, refusal }: PodReport, precision: Precision): [string, string] {
  if (state === 'ready') return ['Ready in:', formatMs(totalMs, precision)];
  if (state === 'deleted') return ['Deleted after:', `${formatMs(totalMs, precision)}, before it was ready`];
  const since = `since ${formatMs(totalMs, precision)}`;
  if (refusal !== undefined) return ['Not ready:', `${since}; refused: ${printable(refusal, 1_024)}`];
  if (waitsFor === undefined) return ['Not ready:', since];
  const { name, whose, sinceMs } = waitsFor;
  const what = `waits for ${whoseNames[whose]} (${name}: ${aboutSpan(name)}) since ${formatMs(sinceMs, precision)}`;
  return ['Not ready:', `${since}; ${what}`];
}

function bar(atMs: number, tookMs: number, totalMs: number): string {
  const scale = totalMs === 0 ? 0 : barWidth / totalMs;
  const start = Math.min(barWidth - 1, Math.floor(atMs * scale));
  const length = Math.min(barWidth - start, Math.max(1, Math.round(tookMs * scale)));
  return `${' '.repeat(start)}${'█'.repeat(length)}`.padEnd(barWidth);
}

function aligned(texts: readonly string[]): string[] {
  const width = Math.max(...texts.map((text) => text.length));
  return texts.map((text) => text.padStart(width));
}

/** The slowest pods, then median and 99th percentile of each span. Empty when no pod is known. */
function slowestTable(list: PodList): string {
  if (list.known === 0) return '';
  const pods = list.pods.map((report) => [
    report.namespace,
    report.name,
    report.state === 'ready' ? formatMs(report.totalMs) : `not yet (${formatMs(report.totalMs)})`,
    formatMs(report.shares.skerry),
    formatMs(report.shares.scheduler),
    formatMs(report.shares.kubelet),
    longest(report),
  ]);
  const header = ['NAMESPACE', 'POD', 'READY IN', 'SKERRY', 'SCHEDULER', 'KUBELET', 'LONGEST STEP'];
  return [table(header, pods), usual(list)].filter((part) => part !== '').join('\n');
}

function longest({ spans, waitsFor }: PodReport): string {
  const all = [...spans.map(({ name, tookMs }) => ({ name, ms: tookMs }))];
  if (waitsFor !== undefined) all.push({ name: waitsFor.name, ms: waitsFor.sinceMs });
  const most = all.reduce((a, b) => (b.ms > a.ms ? b : a), { name: '-', ms: -1 });
  return most.ms < 0 ? '-' : `${most.name} ${formatMs(most.ms)}`;
}

function usual({ spans, total, ready }: PodList): string {
  if (total === undefined) return '';
  const rows = spans.map(({ name, whose, pods, p50Ms, p99Ms }) => [
    name,
    whoseNames[whose],
    String(pods),
    formatMs(p50Ms),
    formatMs(p99Ms),
  ]);
  rows.push(['all', '', String(ready), formatMs(total.p50Ms), formatMs(total.p99Ms)]);
  return table(['STEP', 'WHOSE', 'PODS', 'MEDIAN', '99TH PERCENTILE'], rows);
}
