import ipaddr from 'ipaddr.js';
import { isNotFound, type KubeClient, type KubeObject, resource, resources } from '../../kube/index.ts';
import { type CheckResult, missing, ok, warn } from './checks.ts';

const reviews = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews';
const definitions = resource(
  'apiextensions.k8s.io',
  'v1',
  'customresourcedefinitions',
  'CustomResourceDefinition',
  false,
);
/** Of the chart, and of `vc-manager operator`. */
const defaultPool = '10.112.0.0/12';
const isDefaultClass = 'storageclass.kubernetes.io/is-default-class';

/** What whoever installs the chart has to be allowed to create. */
const created = [
  ['', 'namespaces'],
  ['apiextensions.k8s.io', 'customresourcedefinitions'],
  ['rbac.authorization.k8s.io', 'clusterroles'],
  ['rbac.authorization.k8s.io', 'clusterrolebindings'],
  ['apps', 'statefulsets'],
  ['networking.k8s.io', 'networkpolicies'],
] as const;

/** What of a cluster an install of Skerry needs, and whether it is there. Changes nothing. */
export async function checkCluster(client: KubeClient, signal: AbortSignal): Promise<CheckResult[]> {
  const { gitVersion = '' } = (await client.raw('GET', '/version', { signal, timeoutMs: 15_000 })) as {
    gitVersion?: string;
  };
  const nodes = (await client.list(resources.nodes, { signal })).items;
  const ranges = await serviceRanges(client, signal);
  return [
    ok('super cluster', client.connection.server),
    checkVersion(gitVersion),
    await checkRights(client, signal),
    checkNodes(nodes),
    checkStorage((await client.list(resources.storageClasses, { signal })).items),
    checkServiceRange(ranges, nodes),
    await checkEarlier(client, signal),
  ];
}

export function checkVersion(gitVersion: string): CheckResult {
  const name = 'Kubernetes';
  const minor = Number(/^v?1\.(\d+)/.exec(gitVersion)?.[1] ?? 0);
  if (minor >= 29) return ok(name, gitVersion);
  return missing(
    name,
    `${gitVersion || 'an unknown version'} is too old`,
    'upgrade the cluster to 1.29 or newer',
  );
}

async function checkRights(client: KubeClient, signal: AbortSignal): Promise<CheckResult> {
  const name = 'rights of these credentials';
  const refused: string[] = [];
  for (const [group, plural] of created) {
    const body = {
      apiVersion: 'authorization.k8s.io/v1',
      kind: 'SelfSubjectAccessReview',
      metadata: {},
      spec: { resourceAttributes: { group, resource: plural, verb: 'create' } },
    };
    const { status } = (await client.raw('POST', reviews, { body, signal })) as {
      status?: { allowed?: boolean };
    };
    if (status?.allowed !== true) refused.push(plural);
  }
  if (refused.length === 0) return ok(name, 'enough to install');
  return missing(
    name,
    `may not create ${refused.join(', ')}`,
    'install as a cluster admin: nobody may grant what they do not have',
  );
}

interface Node extends KubeObject {
  spec?: { unschedulable?: boolean; podCIDRs?: readonly string[] };
  status?: { conditions?: readonly { type: string; status: string }[] };
}

export function checkNodes(nodes: readonly KubeObject[]): CheckResult {
  const name = 'nodes';
  const ready = (nodes as readonly Node[]).filter(
    ({ spec, status }) =>
      spec?.unschedulable !== true &&
      status?.conditions?.some((condition) => condition.type === 'Ready' && condition.status === 'True'),
  ).length;
  const detail = `${ready} of ${nodes.length} ready and not cordoned`;
  return ready > 0 ? ok(name, detail) : missing(name, detail, 'add nodes, or uncordon some');
}

export function checkStorage(classes: readonly KubeObject[]): CheckResult {
  const name = 'storage';
  const nameOf = ({ metadata }: KubeObject): string => metadata.name ?? '';
  const chosen = classes.find(({ metadata }) => metadata.annotations?.[isDefaultClass] === 'true');
  if (chosen !== undefined) return ok(name, `default StorageClass ${nameOf(chosen)}`);
  const [first] = classes;
  if (first === undefined)
    return missing(
      name,
      'no StorageClass: the datastore gets no volume',
      'install a provisioner of volumes, or use an etcd of yours: etcd.enabled=false',
    );
  return missing(
    name,
    'no StorageClass is the default: the datastore gets no volume',
    `--set etcd.storage.className=${nameOf(first)}, or make it the default`,
  );
}

/** Ranges of ServiceCIDRs but Skerry's own; undefined: the cluster does not have the kind. */
async function serviceRanges(
  client: KubeClient,
  signal: AbortSignal,
): Promise<readonly string[] | undefined> {
  try {
    const { items } = await client.list<KubeObject & { spec?: { cidrs?: readonly string[] } }>(
      resources.serviceCidrs,
      { signal },
    );
    return items
      .filter(({ metadata }) => metadata.name !== 'skerry-tenants')
      .flatMap(({ spec }) => spec?.cidrs ?? []);
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

export function checkServiceRange(
  services: readonly string[] | undefined,
  nodes: readonly KubeObject[],
  pool = defaultPool,
): CheckResult {
  const name = 'service addresses of tenants';
  const pods = (nodes as readonly Node[]).flatMap(({ spec }) => spec?.podCIDRs ?? []);
  const taken = [...(services ?? []), ...pods].find((range) => overlap(range, pool));
  if (taken !== undefined)
    return missing(
      name,
      `${pool}, the default of manager.servicePool, overlaps ${taken} of this cluster`,
      '--set manager.servicePool=RANGE with one that nothing else uses, such as 10.144.0.0/12',
    );
  if (services === undefined)
    return warn(
      name,
      'the cluster has no ServiceCIDRs (1.33 or newer has)',
      'nothing: each Service of a tenant is moved to the address that the cluster gives it, which is slower',
    );
  return ok(name, `${pool}: look that nothing else of your network is in it`);
}

function overlap(a: string, b: string): boolean {
  if (!ipaddr.isValidCIDR(a) || !ipaddr.isValidCIDR(b)) return false;
  const [first, second] = [ipaddr.parseCIDR(a), ipaddr.parseCIDR(b)];
  if (first[0].kind() !== second[0].kind()) return false;
  return first[0].match(second[0], Math.min(first[1], second[1]));
}

async function checkEarlier(client: KubeClient, signal: AbortSignal): Promise<CheckResult> {
  const name = 'Skerry';
  try {
    await client.get(definitions, { name: 'virtualclusters.skerry.dev' }, { signal });
    return warn(
      name,
      'its kinds are there already',
      'use helm upgrade; there is one release for each cluster',
    );
  } catch (error) {
    if (isNotFound(error)) return ok(name, 'not there yet');
    throw error;
  }
}
