import { type ClientHttp2Session, connect } from 'node:http2';
import { isDeepStrictEqual } from 'node:util';
import { parse } from 'yaml';
import type { KubeObject } from '../../../kube/index.ts';

/** A field somewhere in an object, by path; undefined where there is none. */
export function at<T = unknown>(object: unknown, ...path: string[]): T | undefined {
  let value: unknown = object;
  for (const step of path) {
    if (typeof value !== 'object' || value === null) return undefined;
    value = (value as Record<string, unknown>)[step];
  }
  return value as T | undefined;
}

export function listAt<T = Record<string, unknown>>(object: unknown, ...path: string[]): readonly T[] {
  return at<T[]>(object, ...path) ?? [];
}

export function label(object: KubeObject, key: string): string | undefined {
  return object.metadata.labels?.[key];
}

export function annotation(object: KubeObject, key: string): string | undefined {
  return object.metadata.annotations?.[key];
}

export function nameOf(object: KubeObject): string {
  const { namespace, name } = object.metadata;
  return namespace === undefined ? `${name}` : `${namespace}/${name}`;
}

export function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null || value === '' || value === false) return true;
  if (Array.isArray(value)) return value.length === 0;
  return typeof value === 'object' && Object.keys(value).length === 0;
}

/** Equal, where an absent field is as good as an empty one. */
function agree(one: unknown, other: unknown): boolean {
  return (isEmpty(one) && isEmpty(other)) || isDeepStrictEqual(one, other);
}

/** One sentence for each of the fields that differ. */
export function unequal(tenantValue: unknown, superValue: unknown, what: string): string[] {
  if (agree(tenantValue, superValue)) return [];
  return [`${what}: ${show(tenantValue)} in the tenant, ${show(superValue)} in the super cluster`];
}

function show(value: unknown): string {
  const text = JSON.stringify(value) ?? 'nothing';
  return text.length > 200 ? `${text.slice(0, 200)}…` : text;
}

/** `default/kubernetes`, the Service of a tenant's own API server, and the slice of that. */
export function isApiServers({ metadata }: KubeObject): boolean {
  return metadata.namespace === 'default' && metadata.name === 'kubernetes';
}

/** Whether a label selector matches; an empty one matches everything. */
export function selects(selector: unknown, labels: Readonly<Record<string, string>> = {}): boolean {
  const wanted = at<Record<string, string>>(selector, 'matchLabels') ?? {};
  if (Object.entries(wanted).some(([key, value]) => labels[key] !== value)) return false;
  return listAt<{ key: string; operator: string; values?: string[] }>(selector, 'matchExpressions').every(
    ({ key, operator, values = [] }) => {
      const value = labels[key];
      const isAmong = value !== undefined && values.includes(value);
      if (operator === 'In') return isAmong;
      if (operator === 'NotIn') return !isAmong;
      return (operator === 'Exists') === (value !== undefined);
    },
  );
}

interface Kubeconfig {
  clusters: { cluster: { server: string; 'certificate-authority-data': string } }[];
  users: { user: { 'client-certificate-data': string; 'client-key-data': string } }[];
}

interface PlainList {
  readonly items: KubeObject[];
  readonly resourceVersion: string;
}

const answerTimeoutMs = 30_000;

/**
 * An API server by bare HTTP: no line of the client that the syncer uses, so that a fault of that client cannot
 * hide from the checker. Objects always come as the server stores them, never from a cache of ours.
 */
export class PlainApi {
  readonly #kubeconfig: Kubeconfig;
  #session: ClientHttp2Session | undefined;

  constructor(kubeconfig: string) {
    this.#kubeconfig = parse(kubeconfig) as Kubeconfig;
  }

  /** The whole list in one consistent answer. */
  async list(path: string): Promise<PlainList> {
    const text = await this.#get(path);
    const list = JSON.parse(text) as { metadata: { resourceVersion: string }; items: KubeObject[] };
    return { items: list.items, resourceVersion: list.metadata.resourceVersion };
  }

  /** Calls back at each change after a list, and with `ended` when the watch ends, however it ends. */
  watch(path: string, resourceVersion: string, onChange: (ended: boolean) => void): void {
    const stream = this.#open().request({ ':path': `${path}?watch=1&resourceVersion=${resourceVersion}` });
    stream.on('data', () => onChange(false));
    stream.on('error', () => undefined).on('close', () => onChange(true));
  }

  close(): void {
    this.#session?.destroy();
    this.#session = undefined;
  }

  #get(path: string): Promise<string> {
    return new Promise((resolve, reject) => {
      const stream = this.#open().request({ ':path': path, accept: 'application/json' });
      let status = 0;
      let body = '';
      stream.setTimeout(answerTimeoutMs, () => stream.destroy(new Error(`GET ${path}: no answer`)));
      stream.setEncoding('utf8');
      stream.on('response', (headers) => {
        status = Number(headers[':status']);
      });
      stream.on('data', (chunk: string) => {
        body += chunk;
      });
      stream.on('error', reject);
      stream.on('close', () => reject(new Error(`GET ${path}: connection closed`)));
      stream.on('end', () => {
        if (status === 200) resolve(body);
        else reject(new Error(`GET ${path}: ${status} ${body.slice(0, 300)}`));
      });
    });
  }

  #open(): ClientHttp2Session {
    if (this.#session !== undefined && !this.#session.closed && !this.#session.destroyed)
      return this.#session;
    const decode = (text: string | undefined): string => Buffer.from(text ?? '', 'base64').toString();
    const [cluster] = this.#kubeconfig.clusters;
    const [user] = this.#kubeconfig.users;
    const session = connect(cluster?.cluster.server ?? '', {
      ca: decode(cluster?.cluster['certificate-authority-data']),
      cert: decode(user?.user['client-certificate-data']),
      key: decode(user?.user['client-key-data']),
    });
    // Every stream hears of it, too.
    session.on('error', () => undefined);
    this.#session = session;
    return session;
  }
}

/** What is compared. Plural names, as kubectl takes them. */
export const checkedPaths = {
  namespaces: '/api/v1/namespaces',
  pods: '/api/v1/pods',
  services: '/api/v1/services',
  endpointslices: '/apis/discovery.k8s.io/v1/endpointslices',
  configmaps: '/api/v1/configmaps',
  secrets: '/api/v1/secrets',
  serviceaccounts: '/api/v1/serviceaccounts',
  persistentvolumeclaims: '/api/v1/persistentvolumeclaims',
  persistentvolumes: '/api/v1/persistentvolumes',
  storageclasses: '/apis/storage.k8s.io/v1/storageclasses',
  priorityclasses: '/apis/scheduling.k8s.io/v1/priorityclasses',
  runtimeclasses: '/apis/node.k8s.io/v1/runtimeclasses',
  ingressclasses: '/apis/networking.k8s.io/v1/ingressclasses',
  customresourcedefinitions: '/apis/apiextensions.k8s.io/v1/customresourcedefinitions',
  ingresses: '/apis/networking.k8s.io/v1/ingresses',
  networkpolicies: '/apis/networking.k8s.io/v1/networkpolicies',
  poddisruptionbudgets: '/apis/policy/v1/poddisruptionbudgets',
  nodes: '/api/v1/nodes',
} as const;

/** Only the super cluster has these. */
export const superPaths = {
  ...checkedPaths,
  virtualclusters: '/apis/skerry.dev/v1alpha1/virtualclusters',
  ipaddresses: '/apis/networking.k8s.io/v1/ipaddresses',
} as const;

export type CheckedKind = keyof typeof checkedPaths;
export type SuperKind = keyof typeof superPaths;

/** All objects of one side, kind by kind. */
export type TenantSide = Readonly<Record<CheckedKind, readonly KubeObject[]>>;
export type SuperSide = Readonly<Record<SuperKind, readonly KubeObject[]>>;

export async function readTenant(
  api: PlainApi,
): Promise<{ side: TenantSide; versions: Map<string, string> }> {
  return read<TenantSide>(api, checkedPaths);
}

export async function readSuperCluster(
  api: PlainApi,
): Promise<{ side: SuperSide; versions: Map<string, string> }> {
  return read<SuperSide>(api, superPaths);
}

/** `versions`: path to the resourceVersion of its list. */
async function read<S>(
  api: PlainApi,
  paths: Readonly<Record<string, string>>,
): Promise<{ side: S; versions: Map<string, string> }> {
  const versions = new Map<string, string>();
  const lists = await Promise.all(
    Object.entries(paths).map(async ([kind, path]) => {
      const { items, resourceVersion } = await api.list(path);
      versions.set(path, resourceVersion);
      return [kind, items] as const;
    }),
  );
  return { side: Object.fromEntries(lists) as S, versions };
}

/** What the checker has to know of a VirtualCluster. */
export interface CheckedTenant {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  readonly serviceCIDR: string;
  readonly apiServer: {
    readonly address: string;
    readonly port: number;
    /** It has a Service in the super cluster: nothing stands for `default/kubernetes` there. */
    readonly isService: boolean;
  };
  readonly nodes: 'all' | 'used';
  readonly nodesHidden: boolean;
  readonly nodeSelector: Readonly<Record<string, string>>;
  readonly configMaps: 'used' | 'all';
  readonly secrets: 'used' | 'all';
  readonly networkPolicies: boolean;
  readonly ingresses: boolean;
  readonly ingressHosts: readonly string[];
}

/** Both sides as one tenant is concerned, with ways to find the counterpart of an object. */
export class View {
  readonly tenant: CheckedTenant;
  readonly own: TenantSide;
  readonly superSide: SuperSide;
  /** The tenant's namespace to its super namespaces: one, if all is well. */
  readonly superNamespaces = new Map<string, KubeObject[]>();
  readonly #byPlace = new Map<CheckedKind, Map<string, KubeObject>>();

  constructor(tenant: CheckedTenant, own: TenantSide, superSide: SuperSide) {
    this.tenant = tenant;
    this.own = own;
    this.superSide = superSide;
    for (const namespace of this.marked('namespaces')) {
      const name = label(namespace, 'skerry.dev/namespace') ?? '';
      this.superNamespaces.set(name, [...(this.superNamespaces.get(name) ?? []), namespace]);
    }
  }

  /** Super objects with this tenant's mark. */
  marked(kind: CheckedKind): KubeObject[] {
    return this.superSide[kind].filter((object) => label(object, 'skerry.dev/tenant') === this.tenant.uid);
  }

  superNamespaceName(namespace: string): string | undefined {
    return this.superNamespaces.get(namespace)?.[0]?.metadata.name;
  }

  /** The object in the super namespace that stands for the tenant's, whoever made it. */
  superObject(kind: CheckedKind, namespace: string, name: string): KubeObject | undefined {
    const superNamespace = this.superNamespaceName(namespace);
    return superNamespace === undefined ? undefined : this.#find('super', kind, `${superNamespace}/${name}`);
  }

  ownObject(kind: CheckedKind, namespace: string | undefined, name: string): KubeObject | undefined {
    return this.#find('own', kind, namespace === undefined ? name : `${namespace}/${name}`);
  }

  #find(side: 'own' | 'super', kind: CheckedKind, place: string): KubeObject | undefined {
    const places = side === 'own' ? this.#ownPlaces : this.#byPlace;
    let objects = places.get(kind);
    if (objects === undefined) {
      const all = side === 'own' ? this.own[kind] : this.superSide[kind];
      objects = new Map(
        all.map((object) => {
          const { namespace, name } = object.metadata;
          return [namespace === undefined ? `${name}` : `${namespace}/${name}`, object];
        }),
      );
      places.set(kind, objects);
    }
    return objects.get(place);
  }

  readonly #ownPlaces = new Map<CheckedKind, Map<string, KubeObject>>();
}
