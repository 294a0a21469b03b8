import type { VirtualCluster } from '../../../vc-manager/api/index.ts';
import { differences, remains } from './differences.ts';
import { PlainApi } from './plain-api.ts';
import { readSuperCluster, readTenant, type SuperSide } from './side.ts';
import type { CheckedTenant } from './view.ts';

export interface CheckedCluster {
  /** UID of its VirtualCluster. */
  readonly uid: string;
  readonly name: string;
  readonly kubeconfig: string;
}

export interface CheckerOptions {
  superKubeconfig: string;
  tenants: readonly CheckedCluster[];
}

const defaultTimeoutMs = 90_000;
/** A server that was killed tells nobody when it is back. */
const retryMs = 250;

/** Lists both sides in full and compares them. Shares no code with what keeps them equal. */
export class Checker {
  readonly #superApi: PlainApi;
  readonly #tenants: readonly (CheckedCluster & { api: PlainApi })[];
  #changed = true;
  #wake: (() => void) | undefined;

  constructor({ superKubeconfig, tenants }: CheckerOptions) {
    this.#superApi = new PlainApi(superKubeconfig);
    this.#tenants = tenants.map((tenant) => ({ ...tenant, api: new PlainApi(tenant.kubeconfig) }));
  }

  /** One look. */
  async differences(): Promise<string[]> {
    return this.#look(() => undefined);
  }

  /** Looks again after every change on either side until there is no difference. Rejects with those that remain. */
  async untilAgreed({ timeoutMs = defaultTimeoutMs } = {}): Promise<void> {
    const deadline = performance.now() + timeoutMs;
    const watched = new Set<string>();
    for (;;) {
      this.#changed = false;
      let found: string[];
      try {
        found = await this.#look((api, owner, versions) => this.#watch(api, owner, versions, watched));
      } catch (error) {
        found = [`cannot look: ${error instanceof Error ? error.message : String(error)}`];
        setTimeout(() => this.#notice(), retryMs);
      }
      if (found.length === 0) return;
      const leftMs = deadline - performance.now();
      if (leftMs <= 0 || !(await this.#nextChange(leftMs))) {
        const shown = found.length > 40 ? [...found.slice(0, 40), `… and ${found.length - 40} more`] : found;
        throw new Error(`both sides do not agree after ${timeoutMs / 1000} s:\n${shown.join('\n')}`);
      }
    }
  }

  close(): void {
    this.#superApi.close();
    for (const { api } of this.#tenants) api.close();
  }

  async #look(
    seen: (api: PlainApi, owner: string, versions: Map<string, string>) => void,
  ): Promise<string[]> {
    // First the tenants: what appears between the two lists is younger in the super cluster and is awaited.
    const sides = await Promise.all(this.#tenants.map(({ api }) => readTenant(api)));
    const superCluster = await readSuperCluster(this.#superApi);
    seen(this.#superApi, 'super', superCluster.versions);
    const found = remains(superCluster.side);
    for (const [index, tenant] of this.#tenants.entries()) {
      const own = sides[index];
      if (own === undefined) continue;
      seen(tenant.api, tenant.name, own.versions);
      const checked = checkedTenant(tenant, superCluster.side);
      found.push(...differences(checked, own.side, superCluster.side));
    }
    return found;
  }

  #watch(api: PlainApi, owner: string, versions: Map<string, string>, watched: Set<string>): void {
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
  return {
    uid,
    namespace: vc.metadata.namespace ?? '',
    name: vc.metadata.name ?? '',
    serviceCIDR: vc.status?.serviceCIDR ?? '',
    apiServer: { address: vc.status?.advertisedAddress ?? '', port: vc.status?.advertisedPort ?? 0 },
    nodes: vc.spec?.nodes?.mode ?? 'all',
    configMaps: vc.spec?.sync?.configMaps ?? 'used',
    secrets: vc.spec?.sync?.secrets ?? 'used',
  };
}
