import { defaultPolicy } from '../../api/default-policy.ts';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import {
  applyMergePatch,
  type KubeObject,
  type ObjectRef,
  type Resource,
  resources,
} from '../../kube/index.ts';
import type { Lookup, SyncContext, TenantInfo } from '../context.ts';
import {
  defaultAllowedAnnotations,
  defaultAllowedLabels,
  defaultDeniedKeyPrefixes,
} from '../mapping/metadata.ts';
import type { Action, SyncedKind } from './contract.ts';
import { isReferenced, referenceIds, referencesIndex } from './references.ts';

/** A tenant to test with: VirtualCluster `acme/blue`. */
export function testTenant(overrides: Partial<TenantInfo> = {}): TenantInfo {
  return {
    uid: '11111111-0000-4000-8000-000000000001',
    id: 'k3v9qx2mzp',
    namespace: 'acme',
    name: 'blue',
    clusterDomain: 'cluster.local',
    serviceCidrs: ['10.112.4.0/22'],
    serviceIpMode: 'slice',
    apiServer: { address: '192.0.2.10', port: 21000 },
    kubelet: { address: '192.0.2.11', port: 10250 },
    nodes: 'all',
    syncConfigMaps: 'used',
    syncSecrets: 'used',
    hideNodes: false,
    nodeSelector: {},
    syncIngresses: false,
    syncNetworkPolicies: true,
    networkPoliciesEnforced: true,
    ingressAnnotations: [],
    customResources: [],
    policy: defaultPolicy,
    protectedCIDRs: [],
    nodeLabels: [],
    allowedAnnotations: defaultAllowedAnnotations,
    allowedLabels: defaultAllowedLabels,
    deniedKeyPrefixes: defaultDeniedKeyPrefixes,
    transparentKeyPrefixes: [],
    ...overrides,
  };
}

export interface TestContextOptions {
  tenant?: Partial<TenantInfo>;
  tenantObjects?: readonly KubeObject[];
  superObjects?: readonly KubeObject[];
  /** Whose indexes are to be had; reading any other is an error, as it would be in earnest. */
  kinds?: readonly SyncedKind[];
  nowMs?: number;
}

/** A context over plain arrays. Objects are told apart by their `kind`. */
export function testContext(options: TestContextOptions = {}): SyncContext {
  const kinds = options.kinds ?? [];
  const context: SyncContext = {
    tenant: testTenant(options.tenant),
    tenantObjects: new ArrayLookup(options.tenantObjects ?? [], kinds, 'tenant'),
    superObjects: new ArrayLookup(options.superObjects ?? [], kinds, 'super'),
    isReferenced: (to) => isReferenced(kinds, to, context),
    dataKeysOf: (resource, ref) =>
      Object.keys(context.tenantObjects.get<KubeObject & { data?: object }>(resource, ref)?.data ?? {}),
    nowMs: options.nowMs ?? Date.parse('2026-01-01T00:00:00Z'),
  };
  return context;
}

class ArrayLookup implements Lookup {
  readonly #objects: readonly KubeObject[];
  readonly #kinds: readonly SyncedKind[];
  readonly #side: 'tenant' | 'super';

  constructor(objects: readonly KubeObject[], kinds: readonly SyncedKind[], side: 'tenant' | 'super') {
    for (const object of objects)
      if (object.kind === undefined) throw new Error('a test object needs its kind');
    this.#objects = objects;
    this.#kinds = kinds;
    this.#side = side;
  }

  get<T extends KubeObject = KubeObject>(resource: Resource, ref: ObjectRef): T | undefined {
    return this.#of(resource).find(
      ({ metadata }) =>
        metadata.name === ref.name && (!resource.namespaced || metadata.namespace === ref.namespace),
    ) as T | undefined;
  }

  byIndex<T extends KubeObject = KubeObject>(resource: Resource, index: string, value: string): readonly T[] {
    const kind = this.#kinds.find((candidate) => candidate.resource.plural === resource.plural);
    const valuesOf =
      index === 'tenant' && this.#side === 'super'
        ? ({ metadata }: KubeObject) => [metadata.labels?.[labelKeys.tenant]]
        : index === referencesIndex && kind?.direction === 'down' && kind.references !== undefined
          ? (object: KubeObject) => referenceIds(kind, object)
          : kind?.indexes?.[this.#side]?.[index];
    if (valuesOf === undefined) throw new Error(`no index ${index} on ${resource.plural} of this side`);
    return this.#of(resource).filter((object) => valuesOf(object).includes(value)) as T[];
  }

  version(): number {
    return 0;
  }

  #of(resource: Resource): KubeObject[] {
    return this.#objects.filter((object) => object.kind === resource.kind);
  }
}

/** Both sides of one key, as a small engine without servers leaves them. */
interface Sides {
  readonly tenantObject: KubeObject | undefined;
  readonly superObject: KubeObject | undefined;
}

/** What servers would make of the actions; a deletion just takes the object away. Stops at an unmet `require`. */
export function carryOut(sides: Sides, actions: readonly Action[]): Sides {
  let { tenantObject, superObject } = sides;
  for (const action of actions) {
    switch (action.do) {
      case 'createSuper':
        superObject = action.object;
        break;
      case 'createTenant':
        tenantObject = action.object;
        break;
      case 'patchSuper':
        superObject = patched(superObject, action.patch);
        break;
      case 'patchTenant':
        tenantObject = patched(tenantObject, action.patch);
        break;
      case 'deleteSuper':
        superObject = undefined;
        break;
      case 'deleteTenant':
        tenantObject = undefined;
        break;
      case 'bindTenant':
        tenantObject = patched(tenantObject, {
          metadata: { annotations: action.annotations, labels: action.labels },
          spec: { nodeName: action.node },
        });
        break;
      case 'require':
        return { tenantObject, superObject };
      case 'notice':
      case 'later':
        break;
    }
  }
  return { tenantObject, superObject };
}

function patched(object: KubeObject | undefined, patch: unknown): KubeObject | undefined {
  return object === undefined ? undefined : (applyMergePatch(object, patch) as KubeObject);
}

/** A Namespace of the tenant, or, with marks for labels, of the super cluster. */
export function testNamespace(name: string, labels: Record<string, string> = {}): KubeObject {
  return {
    apiVersion: 'v1',
    kind: resources.namespaces.kind,
    metadata: {
      name,
      uid: `uid-of-namespace-${name}`,
      labels: { 'kubernetes.io/metadata.name': name, ...labels },
      ...(labels[labelKeys.tenant] === undefined
        ? {}
        : { annotations: { [annotationKeys.uid]: `uid-of-${name}-in-the-tenant` } }),
    },
  };
}
