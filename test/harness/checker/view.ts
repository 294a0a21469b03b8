import type { KubeObject } from '../../../kube/index.ts';
import { label } from './raw.ts';
import type { CheckedKind, SuperSide, TenantSide } from './side.ts';

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
