import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import { differences, orphanedSuperObjects } from './differences.ts';
import {
  type CheckedTenant,
  PlainApi,
  readSuperCluster,
  readTenant,
  type SuperSide,
  type TenantSide,
} from './view.ts';

interface CheckedCluster {
  /** UID of its VirtualCluster. */
  readonly uid: string;
  readonly name: string;
  readonly kubeconfig: string;
}

interface CheckerOptions {
  superKubeconfig: string;
  tenants: readonly CheckedCluster[];
}

/** Is told which lists were read, and of what version they were. */
type Seen = (api: PlainApi, owner: string, versions: ReadonlyMap<string, string>) => void;

/**
 * Less than the minute after which a resync mends what the events have missed: that would be a fault, too. Not for suites that
 * change a tenant beside others, which seldom leave both sides as they are while they are read, nor for what was away.
 */
const defaultTimeoutMs = 45_000;
/** A server that was killed tells nobody when it is back. */
const retryMs = 250;

/** What is still different when the time is up. */
export class Disagreement extends Error {
  readonly differences: readonly string[];

  constructor(timeoutMs: number, differences: readonly string[]) {
    const more = differences.length - 40;
    const shown = more > 0 ? [...differences.slice(0, 40), `… and ${more} more`] : differences;
    super(`both sides do not agree after ${timeoutMs / 1000} s:\n${shown.join('\n')}`);
    this.differences = differences;
  }
}

/** What stands in all servers. */
interface Sides {
  readonly superSide: SuperSide;
  readonly tenants: { tenant: CheckedTenant; own: TenantSide }[];
}

/** Lists both sides in full and compares them. Shares no code with what keeps them equal. */
export class Checker {
  readonly #superApi: PlainApi;
  readonly #tenants: readonly (CheckedCluster & { api: PlainApi })[];
  #changed = true;
  #wake: (() => void) | undefined;

  constructor({ superKubeconfig, tenants }: CheckerOptions) {
    this.#superApi = new PlainApi(superKubeconfig);
    this.#tenants = tenants.map(({ uid, name, kubeconfig }) => ({
      uid,
      name,
      kubeconfig,
      api: new PlainApi(kubeconfig),
    }));
  }

  /** One look. */
  async differences(): Promise<string[]> {
    return (await this.#look()).found;
  }

  /** Both sides as they are. */
  async read(seen: Seen = () => undefined): Promise<Sides> {
    // First the tenants: what appears between the two lists is younger in the super cluster and is awaited.
    const sides = await Promise.all(this.#tenants.map(({ api }) => readTenant(api)));
    const superCluster = await readSuperCluster(this.#superApi);
    seen(this.#superApi, 'super cluster', superCluster.versions);
    const tenants = this.#tenants.map((tenant, index) => {
      const own = sides[index] as (typeof sides)[number];
      seen(tenant.api, tenant.name, own.versions);
      return { tenant: checkedTenant(tenant, superCluster.side), own: own.side };
    });
    return { superSide: superCluster.side, tenants };
  }

  /** Looks again after every change on either side until there is no difference. Resolves to the sides that agreed; rejects with a Disagreement. */
  async untilAgreed({ timeoutMs = defaultTimeoutMs } = {}): Promise<Sides> {
    const deadline = performance.now() + timeoutMs;
    const watched = new Set<string>();
    for (;;) {
      this.#changed = false;
      let found: string[];
      try {
        const look = await this.#look((api, owner, versions) => this.#watch(api, owner, versions, watched));
        if (look.found.length === 0) return look.sides;
        found = look.found;
      } catch (error) {
        found = [`cannot look: ${error instanceof Error ? error.message : String(error)}`];
        setTimeout(() => this.#notice(), retryMs);
      }
      const leftMs = deadline - performance.now();
      if (leftMs <= 0) throw new Disagreement(timeoutMs, found);
      if (!(await this.#nextChange(leftMs)))
        throw new Disagreement(timeoutMs, [...found, ...(await this.#silence())]);
    }
  }

  /** A difference that is gone although no watch said so is one of this checker's. */
  async #silence(): Promise<string[]> {
    const agrees = await this.#look().then(
      ({ found }) => found.length === 0,
      () => false,
    );
    return agrees && !this.#changed ? ['(one more look found no difference: the watches were silent)'] : [];
  }

  close(): void {
    this.#superApi.close();
    for (const { api } of this.#tenants) api.close();
  }

  async #look(seen: Seen = () => undefined): Promise<{ found: string[]; sides: Sides }> {
    const sides = await this.read(seen);
    const { superSide, tenants } = sides;
    const differing = tenants.flatMap(({ tenant, own }) => differences(tenant, own, superSide));
    return { found: [...orphanedSuperObjects(superSide), ...differing], sides };
  }

  #watch(api: PlainApi, owner: string, versions: ReadonlyMap<string, string>, watched: Set<string>): void {
    for (const [path, version] of versions) {
      const key = `${owner} ${path}`;
      if (watched.has(key)) continue;
      watched.add(key);
      let ended = false;
      api.watch(path, version, (end) => {
        if (end && !ended) {
          ended = true;
          // Opened again with the next look.
          watched.delete(key);
        }
        this.#notice();
      });
    }
  }

  #notice(): void {
    this.#changed = true;
    this.#wake?.();
  }

  /** False when the time is over. */
  #nextChange(timeoutMs: number): Promise<boolean> {
    if (this.#changed) return Promise.resolve(true);
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(false), timeoutMs);
      this.#wake = () => {
        clearTimeout(timer);
        this.#wake = undefined;
        resolve(true);
      };
    });
  }
}

function checkedTenant({ uid, name }: CheckedCluster, { virtualclusters }: SuperSide): CheckedTenant {
  const vc = virtualclusters.find(({ metadata }) => metadata.uid === uid) as VirtualCluster | undefined;
  if (vc === undefined) throw new Error(`the VirtualCluster of ${name} is gone`);
  const { gateway } = vc.status ?? {};
  return {
    uid,
    namespace: vc.metadata.namespace ?? '',
    name: vc.metadata.name ?? '',
    serviceCIDR: vc.status?.serviceCIDR ?? '',
    apiServer: {
      address: gateway?.podAddress ?? vc.status?.advertisedAddress ?? '',
      port: (gateway?.podAddress === undefined ? vc.status?.advertisedPort : gateway.port) ?? 0,
      isService: vc.status?.driver === 'kubernetes' && gateway?.podAddress === undefined,
    },
    nodes: vc.spec?.nodes?.mode ?? 'all',
    nodesHidden: vc.status?.policy?.hideNodes ?? false,
    nodeSelector: vc.status?.policy?.nodeSelector ?? {},
    configMaps: vc.spec?.sync?.configMaps ?? 'used',
    secrets: vc.spec?.sync?.secrets ?? 'used',
    networkPolicies: vc.spec?.sync?.networkPolicies ?? true,
    ingresses: vc.spec?.sync?.ingresses ?? false,
    ingressHosts: vc.status?.policy?.ingressHosts ?? [],
  };
}
