import {
  fetchingReason,
  noEngineReason,
  noSyncerReason,
  superClusterUnknownReason,
  switchedOffReason,
} from '../../api/conditions.ts';
import {
  backgroundPrefix,
  defaultSystemNamespace,
  kubeconfigKey,
  nameProblem,
  secretNames,
} from '../../api/names.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { isUnclaimed } from '../../api/warm-pool.ts';
import {
  type ConnectionOptions,
  connectionFromSecret,
  isForbidden,
  isNotFound,
  type KubeClient,
  KubeconfigError,
  type ListOptions,
  renderKubeconfig,
  resources,
} from '../../kube/index.ts';
import { CliError, invalidArgument, isMissingResource } from './errors.ts';

export interface VirtualClusterRef {
  namespace: string;
  name: string;
}

/**
 * A tenant by `name`, or by `namespace/name` as tables and conditions show it. Throws `InvalidArgument` with Kubernetes'
 * reason when one of both is not valid.
 */
export function validRef(tenant: string, given: string): VirtualClusterRef {
  const [, itsOwn, its] = /^([^/]+)\/([^/]+)$/.exec(tenant) ?? [];
  const { namespace, name } =
    itsOwn === undefined || its === undefined
      ? { namespace: given, name: tenant }
      : { namespace: itsOwn, name: its };
  if (itsOwn !== undefined && given !== 'default' && given !== itsOwn)
    throw invalidArgument(`"${tenant}" names another namespace than -n ${given}`);
  checkNamespace(namespace);
  const problem = nameProblem(name);
  if (problem !== undefined) throw invalidArgument(`the name "${name}" is not valid: ${problem}`);
  return { namespace, name };
}

/** Throws `InvalidArgument` with Kubernetes' reason when the name of a namespace is not valid. */
export function checkNamespace(namespace: string): void {
  const problem = nameProblem(namespace);
  if (problem !== undefined) throw invalidArgument(`the namespace "${namespace}" is not valid: ${problem}`);
}

/** ` -n NAMESPACE` for a command that the user can copy; empty for the default namespace. */
export function namespaceFlag(namespace: string): string {
  return namespace === 'default' ? '' : ` -n ${namespace}`;
}

/** What to read when a program of Skerry seems not to run, of the local stack and of an installation by the chart. */
export function programLogs(program: 'manager' | 'syncer', namespace = defaultSystemNamespace): string {
  const ofPods = `kubectl -n ${namespace} logs -l app.kubernetes.io/component=${program} --prefix`;
  return `Its log: "vc-manager logs --stack vc-${program}", or with the Helm chart "${ofPods}"`;
}

/** Throws `NotFound`, with the namespaces that have a VirtualCluster of that name. */
export async function getVirtualCluster(
  client: KubeClient,
  ref: VirtualClusterRef,
  signal: AbortSignal,
): Promise<VirtualCluster> {
  try {
    return await client.get<VirtualCluster>(resources.virtualClusters, ref, { signal });
  } catch (error) {
    if (!isNotFound(error) || isMissingResource(error)) throw error;
    throw await virtualClusterNotFound(client, ref, signal);
  }
}

/**
 * Tenants of a namespace, also those that wait for an owner there; without one, those of all namespaces that have an
 * owner. Throws `Forbidden` with the remedy where those of all namespaces are refused.
 */
export async function listTenants(
  client: KubeClient,
  { namespace, ...options }: ListOptions & { signal: AbortSignal },
  remedy = 'name a namespace that you may look into with -n NAMESPACE',
): Promise<VirtualCluster[]> {
  if (namespace !== undefined)
    return (await client.list<VirtualCluster>(resources.virtualClusters, { namespace, ...options })).items;
  try {
    const { items } = await client.list<VirtualCluster>(resources.virtualClusters, options);
    return items.filter((vc) => !isUnclaimed(vc));
  } catch (error) {
    if (!isForbidden(error)) throw error;
    const said = error.status?.message ?? error.message;
    throw new CliError('Forbidden', `${said}: ${remedy}`, { cause: error });
  }
}

/** The tenant of this name, else those that `listTenants` gives. */
export async function oneOrAllTenants(
  client: KubeClient,
  name: string | undefined,
  { namespace, signal }: { namespace: string | undefined; signal: AbortSignal },
): Promise<VirtualCluster[]> {
  if (name === undefined) return listTenants(client, { namespace, signal });
  return [await getVirtualCluster(client, validRef(name, namespace ?? 'default'), signal)];
}

export async function virtualClusterNotFound(
  client: KubeClient,
  ref: VirtualClusterRef,
  signal: AbortSignal,
): Promise<CliError> {
  const message = `no VirtualCluster "${ref.name}" in namespace ${ref.namespace}`;
  let items: VirtualCluster[];
  try {
    ({ items } = await client.list<VirtualCluster>(resources.virtualClusters, { signal }));
  } catch (error) {
    // Who has rights in one namespace learns nothing of the others.
    if (isForbidden(error)) return new CliError('NotFound', message);
    throw error;
  }
  const elsewhere = items
    .filter(({ metadata }) => metadata.name === ref.name)
    .map(({ metadata }) => metadata.namespace);
  const hint =
    elsewhere.length > 0
      ? `there is one in namespace ${elsewhere.join(' and ')}: add -n ${elsewhere[0]}`
      : 'see "vc-manager list"';
  return new CliError('NotFound', `${message}: ${hint}`);
}

/**
 * The admin kubeconfig. Throws `NotReady` while there is none. Of the Secret, which the owner of the VirtualCluster may
 * change, only the server, its CA and the client certificate are taken: with a plugin in it kubectl would run the owner's
 * programs, and with names of the owner's choice it would replace what a person's kubeconfig has. Throws
 * `KubeconfigError` where there is more.
 */
export async function adminKubeconfig(
  client: KubeClient,
  vc: VirtualCluster,
  signal: AbortSignal,
): Promise<string> {
  const { name = '', namespace = '' } = vc.metadata;
  const secret = vc.status?.kubeconfigSecret ?? { name: secretNames(name).kubeconfig, key: kubeconfigKey };
  let data: unknown;
  try {
    data = (await client.get(resources.secrets, { namespace, name: secret.name }, { signal }))['data'];
  } catch (error) {
    if (!isNotFound(error)) throw error;
    const phase = vc.status?.phase ?? 'Pending';
    const why = readyCondition(vc)?.message;
    throw new CliError(
      'NotReady',
      `${name} has no kubeconfig yet, it is ${phase}${why === undefined ? '' : ` (${why})`}: ` +
        `see "vc-manager describe ${name} -n ${namespace}"`,
      { cause: error },
    );
  }
  const encoded = (data as Record<string, string> | undefined)?.[secret.key];
  if (encoded === undefined) {
    throw new CliError(
      'NotReady',
      `Secret ${namespace}/${secret.name} has no key "${secret.key}": the manager writes it again soon`,
    );
  }
  const clusterName = `${namespace}/${name}`;
  try {
    const { ca, cert, key, server, tlsServerName } = connectionFromSecret(
      Buffer.from(encoded, 'base64').toString(),
    );
    return renderKubeconfig({
      clusterName,
      server,
      tlsServerName,
      ca,
      user: `${clusterName}/admin`,
      cert,
      key,
    });
  } catch (error) {
    if (!(error instanceof KubeconfigError)) throw error;
    const message = `Secret ${namespace}/${secret.name} is not as the manager has written it (${error.message}): the manager puts it right within a minute, if it runs`;
    throw new KubeconfigError(error.code, message, { cause: error });
  }
}

/** Of a tenant's API server, which answers with whatever its admins please, also to the manager's dashboard. */
const readLimits = {
  ...{ pageBytes: 4 << 20, listBytes: 8 << 20, objectBytes: 2 << 20 },
  ...{ answerValues: 250_000, listValues: 500_000 },
};

/**
 * To the tenant's API server for what a command or the dashboard asks by itself: where it goes through the gateway, it
 * neither wakes the tenant nor counts as use. Of its answers only so much is read. Throws as `adminKubeconfig` does.
 */
export async function backgroundConnection(
  client: KubeClient,
  vc: VirtualCluster,
  signal: AbortSignal,
): Promise<ConnectionOptions> {
  const connection = { ...connectionFromSecret(await adminKubeconfig(client, vc, signal)), readLimits };
  const { gateway } = vc.status ?? {};
  if (gateway === undefined || connection.server !== gateway.server) return connection;
  return { ...connection, tlsServerName: `${backgroundPrefix}${gateway.serverName}` };
}

export function readyCondition(
  vc: VirtualCluster,
): { status: string; reason?: string; message?: string } | undefined {
  return vc.status?.conditions?.find(({ type }) => type === 'Ready');
}

/** Ready, and for the present generation of the spec. */
export function isReady(vc: VirtualCluster): boolean {
  const { phase, observedGeneration } = vc.status ?? {};
  return (
    phase === 'Ready' &&
    vc.metadata.deletionTimestamp === undefined &&
    (observedGeneration ?? 0) >= (vc.metadata.generation ?? 0)
  );
}

/** Conditions that are a problem when they are true; all others when they are false. */
const problemWhenTrue: readonly string[] = ['IdentityMismatch', 'DeletionHeld', 'PolicyLimited'];
/** Whether the tenant's policies act is said to the tenant. */
const noProblemTypes: readonly string[] = ['NetworkPoliciesEnforced'];
/** What goes by, was never asked for, or is what the super cluster is like. */
const noProblem: readonly string[] = [
  noEngineReason,
  switchedOffReason,
  'Provisioning',
  fetchingReason,
  'Starting',
  'Joining',
  'Deleting',
  'Left',
  'Asleep',
  'Restoring',
  'Moving',
];

type TenantCondition = NonNullable<NonNullable<VirtualCluster['status']>['conditions']>[number];

/** The conditions that say what is wrong with a tenant, the most telling first. */
export function failingConditions({ status }: VirtualCluster): TenantCondition[] {
  const wrong = (status?.conditions ?? []).filter(({ type, status: is, reason = '' }) => {
    if (problemWhenTrue.includes(type)) return is === 'True';
    // One that is asleep needs none.
    if (reason === noSyncerReason) return status?.phase !== 'Asleep';
    if (noProblemTypes.includes(type)) return false;
    return reason === superClusterUnknownReason || (is === 'False' && !noProblem.includes(reason));
  });
  // What Ready says is most often the reason of another condition too.
  return wrong.toSorted((a, b) => Number(b.type === 'Ready') - Number(a.type === 'Ready'));
}

/** Their reasons. */
export function problems(vc: VirtualCluster): string[] {
  return [...new Set(failingConditions(vc).map(({ type, reason }) => reason || type))];
}

/** Messages of conditions that limit a tenant though nothing is broken. */
export function limitations({ status }: VirtualCluster): string[] {
  return (status?.conditions ?? [])
    .filter(
      ({ type, status: is, reason }) =>
        (type === 'PolicyLimited' && is === 'True') ||
        (type === 'DatastoreWithinQuota' && (is === 'False' || reason === 'NearQuota')) ||
        (type === 'VersionCurrent' && is === 'False') ||
        (type === 'Placed' && is === 'False') ||
        (type === 'DNSReady' && is === 'False' && reason !== 'Starting'),
    )
    .map(({ type, message }) => message ?? type);
}

/** What the tenant has of what is limited, as the syncer and, of the datastore, the manager last said. */
export function quotaOf({
  status,
}: VirtualCluster): { resource: string; used?: string | undefined; allowed: string }[] {
  const { keys, bytes } = status?.datastoreUsage ?? {};
  const used: Record<string, string> = {
    ...status?.usage?.resources,
    ...(keys === undefined ? {} : { 'datastore.keys': String(keys) }),
    ...(bytes === undefined ? {} : { 'datastore.bytes': `${Math.ceil(bytes / 1024)}Ki` }),
  };
  return Object.entries(status?.policy?.quota ?? {}).map(([resource, allowed]) => {
    return { resource, used: Object.hasOwn(used, resource) ? used[resource] : undefined, allowed };
  });
}
