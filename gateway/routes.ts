import { backgroundPrefix, idPattern } from '../api/names.ts';
import { isPaused, sleepAfterIdleMs } from '../api/tenant-state.ts';
import type { VirtualCluster } from '../api/virtual-cluster.ts';
import { namespacedName } from '../kube/index.ts';

/** Where connections of one tenant go. */
export interface Route {
  /** `namespace/name` of the VirtualCluster. */
  readonly tenant: string;
  readonly id: string;
  readonly host: string;
  readonly port: number;
  /** Where the gateway listens for this tenant alone. */
  readonly ownPort?: number;
  /** Its API server does not run: it has to be woken, or comes back by itself. */
  readonly isAsleep: boolean;
  /** It is asleep and nothing of it runs: an API server that answers there has been woken. */
  readonly isStopped?: boolean;
  /** It comes back by itself: it is being moved, or put back to a snapshot. */
  readonly isPaused?: boolean;
  /** The client asks to be left out: it neither wakes the tenant nor keeps it awake. */
  readonly isBackground?: boolean;
  /** After so long without a connection it may be put to sleep. */
  readonly idleMs?: number;
}

/**
 * Tenants by the server name of their API server, `<id>.<domain>`. Ids are given by the manager and stand in the status,
 * so that no owner of a VirtualCluster takes the name of another one.
 */
export class Routes {
  readonly #domain: string;
  /** By id; then by the UID of those that have it, in the order of their age. */
  readonly #claims = new Map<string, Map<string, { bornAt: string; route: Route }>>();
  readonly #idOf = new Map<string, string>();

  constructor(domain: string) {
    this.#domain = domain;
  }

  /** How many names are known. */
  get size(): number {
    return this.#claims.size;
  }

  /** Whether it is the name of a tenant, be it one that is not known here. */
  isOfDomain(serverName: string): boolean {
    return serverName.endsWith(`.${this.#domain}`);
  }

  find(serverName: string): Route | undefined {
    if (!this.isOfDomain(serverName)) return undefined;
    const label = serverName.slice(0, -this.#domain.length - 1);
    const isBackground = label.startsWith(backgroundPrefix);
    const route = this.byId(isBackground ? label.slice(backgroundPrefix.length) : label);
    return route !== undefined && isBackground ? { ...route, isBackground } : route;
  }

  byId(id: string): Route | undefined {
    // Two VirtualClusters never have one id for long, as when one is restored beside the other: the older one counts.
    const claims = [...(this.#claims.get(id)?.values() ?? [])];
    return claims.reduce<(typeof claims)[0] | undefined>(
      (oldest, each) => (oldest === undefined || each.bornAt < oldest.bornAt ? each : oldest),
      undefined,
    )?.route;
  }

  put(vc: VirtualCluster): void {
    const uid = vc.metadata.uid ?? '';
    const route = routeOf(vc);
    if (this.#idOf.get(uid) !== route?.id) this.remove(vc);
    if (route === undefined) return;
    const claims = this.#claims.get(route.id) ?? new Map();
    this.#claims.set(route.id, claims.set(uid, { bornAt: bornAt(vc), route }));
    this.#idOf.set(uid, route.id);
  }

  remove({ metadata: { uid = '' } }: VirtualCluster): void {
    const id = this.#idOf.get(uid);
    if (id === undefined) return;
    this.#idOf.delete(uid);
    const claims = this.#claims.get(id);
    claims?.delete(uid);
    if (claims?.size === 0) this.#claims.delete(id);
  }

  /** Of all tenants. */
  all(): Route[] {
    return [...this.#claims.keys()].flatMap((id) => this.byId(id) ?? []);
  }
}

function bornAt({ metadata }: VirtualCluster): string {
  return `${metadata.creationTimestamp ?? ''} ${metadata.uid ?? ''}`;
}

function routeOf(vc: VirtualCluster): Route | undefined {
  const { metadata, status } = vc;
  const { id, endpoint, phase, gateway } = status ?? {};
  if (id === undefined || !idPattern.test(id) || endpoint === undefined || phase === 'Deleting')
    return undefined;
  if (!URL.canParse(endpoint)) return undefined;
  const { hostname, port, protocol } = new URL(endpoint);
  if (protocol !== 'https:') return undefined;
  const idleMs = sleepAfterIdleMs(vc);
  const isAway = status?.restore !== undefined || isPaused(vc);
  return {
    tenant: namespacedName(metadata),
    id,
    // Of an IPv6 address without its brackets.
    host: hostname.replace(/^\[(.*)\]$/, '$1'),
    port: port === '' ? 443 : Number(port),
    ...(gateway?.port === undefined ? {} : { ownPort: gateway.port }),
    isAsleep: phase === 'Asleep' || isAway,
    ...(phase === 'Asleep' && !isAway && status?.sleep?.stopped === true && { isStopped: true }),
    ...(isAway && { isPaused: true }),
    ...(idleMs === undefined ? {} : { idleMs }),
  };
}
