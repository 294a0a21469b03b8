import ipaddr from 'ipaddr.js';
import { networkPolicyEngine } from '../../api/network-policy-engines.ts';
import {
  ApiError,
  ignoreNotFound,
  isDeniedByAdmission,
  isNotFound,
  type KubeClient,
  type KubeObject,
  type Resource,
  resources,
} from '../../kube/index.ts';
import { defaultVersions } from '../binaries/index.ts';
import { widestServiceRanges } from '../operator/setup.ts';

/** Result of one check of a machine or a cluster. */
export interface CheckResult {
  name: string;
  /** `missing`: it cannot work. `warn`: it may fail under some conditions. */
  state: 'ok' | 'warn' | 'missing';
  detail: string;
  /** What to do; only when not ok. */
  remedy?: string;
}

export function ok(name: string, detail: string): CheckResult {
  return { name, state: 'ok', detail };
}

export function warn(name: string, detail: string, remedy: string): CheckResult {
  return { name, state: 'warn', detail, remedy };
}

export function missing(name: string, detail: string, remedy: string): CheckResult {
  return { name, state: 'missing', detail, remedy };
}

const reviews = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews';
/** Of the chart, and of `vc-manager operator`. */
const defaultPool = '10.112.0.0/12';
const isDefaultClass = 'storageclass.kubernetes.io/is-default-class';

/** What the user who installs the chart has to be allowed to create. */
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
  return [
    ok('super cluster', client.connection.server),
    checkVersion(gitVersion),
    await checkRights(client, signal),
    checkNodes(nodes),
    checkStorage((await client.list(resources.storageClasses, { signal })).items),
    await checkServiceAddresses(client, nodes, signal),
    await checkPodSecurity(client, signal),
    await checkPolicies(client, signal),
    checkNetworkPolicies(await client.raw('GET', '/apis', { signal }), nodes),
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
  status?: {
    conditions?: readonly { type: string; status: string }[];
    addresses?: readonly { address: string }[];
  };
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

/** Of a pool that overlaps them, what is said. */
interface Addresses {
  /** Ranges of the cluster's Services, without Skerry's own. */
  services?: readonly string[];
  pods?: readonly string[];
  nodes?: readonly KubeObject[];
  /** Why the cluster takes no further range; absent: it does. */
  refusal?: string | undefined;
}

/** What the manager makes. */
const pool: KubeObject = { metadata: { name: 'skerry-tenants' }, spec: { cidrs: [defaultPool] } };

/** Where the network has ranges of its own, nodes do not tell them, but some of the pods will do. */
const maxPods = 500;

async function checkServiceAddresses(
  client: KubeClient,
  nodes: readonly KubeObject[],
  signal: AbortSignal,
): Promise<CheckResult> {
  const { items } = await client.list<KubeObject & { status?: { podIP?: string } }>(resources.pods, {
    limit: maxPods,
    signal,
  });
  const pods = items.flatMap(({ status }) => status?.podIP ?? []).map(asRange);
  try {
    const known = await client.list<KubeObject & { spec?: { cidrs?: readonly string[] } }>(
      resources.serviceCidrs,
      { signal },
    );
    const others = known.items.filter(({ metadata }) => metadata.name !== pool.metadata.name);
    const isThere = others.length < known.items.length;
    return checkServiceRange({
      services: others.flatMap(({ spec }) => spec?.cidrs ?? []),
      pods,
      nodes,
      refusal: isThere ? undefined : await denialOf(client, resources.serviceCidrs, pool, signal),
    });
  } catch (error) {
    if (!isNotFound(error)) throw error;
    const services = await widestServiceRanges(client, signal);
    const refusal = 'it has no ServiceCIDRs (1.33 or newer has)';
    return checkServiceRange({ services, pods, nodes, refusal });
  }
}

export function checkServiceRange({ services = [], pods = [], nodes = [], refusal }: Addresses): CheckResult {
  const name = 'service addresses of tenants';
  const known = [
    ...services.map((range) => ({ range, what: 'the Services' })),
    ...(nodes as readonly Node[])
      .flatMap(({ spec }) => spec?.podCIDRs ?? [])
      .map((range) => ({ range, what: 'the pods' })),
    ...pods.map((range) => ({ range, what: 'a pod' })),
    ...(nodes as readonly Node[])
      .flatMap(({ status }) => status?.addresses ?? [])
      .map(({ address }) => ({ range: asRange(address), what: 'a node' })),
  ];
  const taken = known.find(({ range }) => overlap(range, defaultPool));
  if (taken !== undefined) {
    const free = otherPools.find((each) => !known.some(({ range }) => overlap(range, each)));
    return missing(
      name,
      `${defaultPool}, the default of manager.servicePool, overlaps ${taken.range} of ${taken.what} here`,
      `--set manager.servicePool=${free ?? 'RANGE'}${free === undefined ? ' with a range' : ', or another'} that nothing else in your network uses`,
    );
  }
  if (refusal !== undefined)
    return warn(
      name,
      `the cluster takes no range for tenants: ${refusal}`,
      'nothing: it assigns the address of each Service of a tenant, which is slower',
    );
  return ok(name, `${defaultPool}: look that nothing else of your network is in it`);
}

const otherPools = [144, 160, 176, 192, 208, 224, 128, 80, 64].map((second) => `10.${second}.0.0/12`);

function asRange(address: string): string {
  return `${address}/${ipaddr.IPv6.isValid(address) ? 128 : 32}`;
}

function overlap(a: string, b: string): boolean {
  if (!ipaddr.isValidCIDR(a) || !ipaddr.isValidCIDR(b)) return false;
  const [first, second] = [ipaddr.parseCIDR(a), ipaddr.parseCIDR(b)];
  if (first[0].kind() !== second[0].kind()) return false;
  return first[0].match(second[0], Math.min(first[1], second[1]));
}

/** The message with which a policy or webhook of the cluster refuses an object; undefined: none does. Creates nothing. */
async function denialOf(
  client: KubeClient,
  resource: Resource,
  object: KubeObject,
  signal: AbortSignal,
  isDenial: (error: unknown) => error is ApiError = isDeniedByAdmission,
): Promise<string | undefined> {
  try {
    await client.create(resource, object, { dryRun: true, signal });
  } catch (error) {
    if (isDenial(error)) return error.message;
    // Rights are another check, and not every webhook can be tried.
    if (!(error instanceof ApiError)) throw error;
  }
  return undefined;
}

const levelKey = 'pod-security.kubernetes.io/enforce';

/** As those of chart and control planes are. */
const restricted = {
  automountServiceAccountToken: false,
  securityContext: { runAsNonRoot: true, runAsUser: 65532, seccompProfile: { type: 'RuntimeDefault' } },
  containers: [
    {
      name: 'etcd',
      image: `registry.k8s.io/etcd:v${defaultVersions.etcd}`,
      resources: { requests: { cpu: '10m', memory: '64Mi' }, limits: { memory: '64Mi' } },
      securityContext: {
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      },
    },
  ],
};

function podOf(spec: object): KubeObject {
  return { metadata: { namespace: 'default', name: 'skerry-doctor' }, spec };
}

/** Which level namespaces have that name none: by a pod that every level but the lowest refuses. */
async function checkPodSecurity(client: KubeClient, signal: AbortSignal): Promise<CheckResult> {
  const name = 'Pod Security';
  const ofLevel = (error: unknown): error is ApiError =>
    error instanceof ApiError && /violates PodSecurity/.test(error.message);
  const object = podOf({ ...restricted, hostNetwork: true });
  const refusal = await denialOf(client, resources.pods, object, signal, ofLevel);
  const level = /violates PodSecurity "([a-z]+)/.exec(refusal ?? '')?.[1];
  if (level === undefined) return ok(name, 'namespace default enforces no level');
  return ok(
    name,
    `namespace default enforces ${level}, which Skerry's own pods keep to; namespaces of tenants name their level themselves`,
  );
}

async function checkPolicies(client: KubeClient, signal: AbortSignal): Promise<CheckResult> {
  const name = 'policies';
  const metadata = { name: 'skerry-tenant-doctor', labels: { [levelKey]: 'baseline' } };
  const ofNamespace = await denialOf(client, resources.namespaces, { metadata }, signal);
  if (ofNamespace !== undefined)
    return missing(
      name,
      `the cluster refuses namespaces as tenants need them: ${ofNamespace}`,
      'have that policy except the users system:serviceaccount:skerry-system:skerry-manager and skerry-syncer',
    );
  const ofPod = await denialOf(client, resources.pods, podOf(restricted), signal);
  if (ofPod !== undefined)
    return warn(
      name,
      `namespace default refuses a pod like those of Skerry: ${ofPod}`,
      'should that hold for skerry-system and skerry-tenant-* too: except them, or set the values that it asks for',
    );
  return ok(name, 'none was found that refuses what Skerry makes');
}

export function checkNetworkPolicies(apis: unknown, nodes: readonly KubeObject[] = []): CheckResult {
  const name = 'NetworkPolicies';
  const engine = networkPolicyEngine(apis);
  if (
    engine !== undefined &&
    !(nodes as readonly Node[]).some(({ spec }) => (spec?.podCIDRs ?? []).length > 0)
  )
    return warn(
      name,
      `acted upon by the engine of ${engine}, but no node says which addresses its pods get: pods of tenants would not be kept apart`,
      "--set 'syncer.extraArgs={--pod-cidr=RANGE}' with the range that pods get their addresses from",
    );
  if (engine !== undefined) return ok(name, `acted upon by the engine of ${engine}`);
  return warn(
    name,
    'no engine is known by its API group, so the syncer takes it that nothing keeps pods of tenants apart',
    '--set syncer.networkPolicies=enforced where the network acts on them all the same, as those of k3s and kind do; where that is set, the condition TenantsIsolated says whether it holds',
  );
}

async function checkEarlier(client: KubeClient, signal: AbortSignal): Promise<CheckResult> {
  const name = 'Skerry';
  const ref = { name: 'virtualclusters.skerry.dev' };
  const found = await ignoreNotFound(client.get(resources.customResourceDefinitions, ref, { signal }));
  if (found === undefined) return ok(name, 'not there yet');
  return warn(name, 'its kinds are there already', 'use helm upgrade; there is one release for each cluster');
}
