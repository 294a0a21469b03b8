import { type KubeObject, namespacedName, type Store, type StoreEvent } from '../../kube/index.ts';
import type { KeyRef } from '../context.ts';
import type { EngineObserver } from '../engine.ts';
import type { Pod } from '../kinds/pods/types.ts';
import { originalUid, tenantNamespaceOf, tenantUidOf } from '../mapping/labels.ts';
import { StepTable, Trace, type TraceContext } from './trace.ts';

interface PodTracesOptions extends Omit<TraceContext, 'table'> {
  /** Pods that are remembered, over all tenants. Default 10,000. */
  limit?: number;
}

interface TenantTraces {
  /** `namespace/name` of the VirtualCluster. */
  readonly label: string;
  /** By `namespace/name`, the oldest first. */
  readonly pods: Map<string, Trace>;
}

/**
 * The ways of the latest pods, of those only that this syncer has seen coming: what a list shows has been there
 * before. When there are too many, the tenant with the most loses its oldest.
 */
export class PodTraces {
  readonly #context: TraceContext;
  /** By UID of the VirtualCluster. */
  readonly #tenants = new Map<string, TenantTraces>();

  constructor({ limit = 10_000, ...options }: PodTracesOptions) {
    this.#context = { ...options, table: new StepTable(limit) };
  }

  /** Traces what this store of a tenant's pods shows from now on; another may follow it when the session does. */
  follow(uid: string, label: string, pods: Store): void {
    let tenant = this.#tenants.get(uid);
    if (tenant === undefined) {
      tenant = { label, pods: new Map() };
      this.#tenants.set(uid, tenant);
    }
    const followed = tenant;
    pods.subscribe((event) => {
      if (this.#tenants.get(uid) === followed) this.#tenantEvent(followed, event);
    });
  }

  /** To be called once, with the store of all tenants' pods in the super cluster. */
  followSuper(pods: Store): void {
    pods.subscribe(({ type, object }) => {
      if (type !== 'deleted') this.#superPod(object);
    });
  }

  /** Forgets a tenant. */
  leave(uid: string): void {
    for (const trace of this.#tenants.get(uid)?.pods.values() ?? []) trace.close();
    this.#tenants.delete(uid);
  }

  /** @param uid of the VirtualCluster */
  find(uid: string, namespace: string | undefined, name: string): Trace | undefined {
    return this.#tenants.get(uid)?.pods.get(namespacedName({ namespace, name }));
  }

  /** Labels of the tenants that are followed. */
  get tenants(): readonly string[] {
    return [...this.#tenants.values()].map(({ label }) => label);
  }

  /** The traces of a tenant, or of all; a VirtualCluster that was made anew has those of its predecessor no more. */
  *of(label?: string): Generator<Trace> {
    for (const tenant of this.#tenants.values()) {
      if (label === undefined || tenant.label === label) yield* tenant.pods.values();
    }
  }

  #tenantEvent(tenant: TenantTraces, { type, object, watched }: StoreEvent<KubeObject>): void {
    const { namespace = '', name = '', uid = '' } = object.metadata;
    if (type === 'added') {
      if (watched) this.#begin(tenant, object as Pod);
      return;
    }
    const trace = tenant.pods.get(namespacedName({ namespace, name }));
    if (trace === undefined || trace.uid !== uid || trace.isOver) return;
    if (type === 'deleted') trace.mark('deleted');
    else {
      if (isBound(object)) trace.mark('bound');
      if (isReady(object)) trace.mark('told');
    }
  }

  #begin(tenant: TenantTraces, pod: Pod): void {
    const { namespace = '', name = '', uid = '', creationTimestamp: createdAt } = pod.metadata;
    const key = namespacedName({ namespace, name });
    this.#drop(tenant, key);
    // It comes from somewhere else: a node of its own, or a backup.
    if (isBound(pod) || isReady(pod)) return;
    if (this.#context.table.isFull) this.#dropOldest();
    tenant.pods.set(key, new Trace({ tenant: tenant.label, namespace, name, uid, createdAt }, this.#context));
  }

  #superPod(pod: Pod): void {
    const trace = this.find(tenantUidOf(pod) ?? '', tenantNamespaceOf(pod), pod.metadata.name ?? '');
    if (trace === undefined || trace.isOver || originalUid(pod) !== trace.uid) return;
    trace.mark('created');
    if (isBound(pod)) {
      trace.node ??= pod.spec?.nodeName;
      trace.mark('scheduled');
    }
    if (pod.status?.phase === 'Running') trace.mark('running');
    if (isReady(pod)) trace.mark('ready');
  }

  #drop(tenant: TenantTraces, key: string): void {
    tenant.pods.get(key)?.close();
    tenant.pods.delete(key);
  }

  #dropOldest(): void {
    let largest: TenantTraces | undefined;
    for (const tenant of this.#tenants.values()) {
      if (largest === undefined || tenant.pods.size > largest.pods.size) largest = tenant;
    }
    for (const oldest of largest?.pods.keys() ?? []) {
      this.#drop(largest as TenantTraces, oldest);
      return;
    }
  }
}

function isBound(pod: Pod): boolean {
  return (pod.spec?.nodeName ?? '') !== '';
}

/** Or has ended: there is nothing more to wait for. */
function isReady({ status }: Pod): boolean {
  if (status?.phase === 'Succeeded' || status?.phase === 'Failed') return true;
  return status?.conditions?.some((each) => each.type === 'Ready' && each.status === 'True') === true;
}

type Tenant = Parameters<NonNullable<EngineObserver['queued']>>[0];

/** Notes in the traces what the engine does with pods. */
export function observePods(
  traces: PodTraces,
): Required<Pick<EngineObserver, 'queued' | 'taken' | 'held' | 'admitted' | 'acting' | 'acted'>> {
  const traceOf = ({ info }: Tenant, { namespace, name }: KeyRef): Trace | undefined =>
    traces.find(info.uid, namespace, name);
  return {
    queued: (tenant, key) => {
      if (key.kind === 'pods') traceOf(tenant, key)?.mark('queued');
    },
    taken: (tenant, key) => {
      if (key.kind === 'pods') traceOf(tenant, key)?.mark('taken');
    },
    held: (tenant, key) => traceOf(tenant, key)?.mark('held'),
    admitted: (tenant, key) => {
      const trace = traceOf(tenant, key);
      if (trace?.has('held')) trace.mark('admitted');
    },
    acting: (tenant, key, action) => {
      if (key.kind !== 'pods') return;
      const trace = traceOf(tenant, key);
      if (trace === undefined) return;
      if (action.do === 'createSuper') {
        if (originalUid(action.object) === trace.uid) trace.mark('createSent');
      } else if (action.do === 'bindTenant') {
        if (trace.has('scheduled')) trace.mark('bindingSent');
      } else if (action.do === 'patchTenant' && action.subresource === 'status') {
        if (trace.has('ready')) trace.mark('statusSent');
      }
    },
    acted: (tenant, key, action) => {
      if (key.kind === 'pods') {
        if (action.do === 'createSuper') {
          const trace = traceOf(tenant, key);
          if (originalUid(action.object) === trace?.uid) trace?.mark('created');
        } else if (action.do === 'bindTenant') {
          const trace = traceOf(tenant, key);
          if (trace?.has('bindingSent')) trace.mark('bound');
        }
      } else if (key.kind === 'tokens' && (action.do === 'createSuper' || action.do === 'patchSuper')) {
        const trace = traceOf(tenant, key);
        if (trace?.has('bound')) trace.mark('tokensWritten');
      }
    },
  };
}
