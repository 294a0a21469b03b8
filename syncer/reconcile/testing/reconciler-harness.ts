import { type KubeObject, type Resource, resources } from '../../../kube/index.ts';
import { FakeClock, type FakeCluster, startFakeCluster } from '../../../kube/testing/index.ts';
import type { KeyRef, TenantInfo } from '../../context.ts';
import { PodTokenController } from '../../controllers/pod-tokens.ts';
import { actionGates, superWatches } from '../../controllers/registry.ts';
import type { DownKind } from '../../kinds/contract.ts';
import { allKinds } from '../../kinds/registry.ts';
import { testTenant } from '../../kinds/testing.ts';
import { superMetadata } from '../../mapping/metadata.ts';
import { Caches } from '../caches.ts';
import type { Outcome } from '../controller.ts';
import type { ActionGate } from '../execute.ts';
import { IdentityGuard } from '../guards.ts';
import { keyId } from '../keys.ts';
import { Reconciler } from '../reconciler.ts';
import { TenantState } from '../tenant-state.ts';

type Side = 'tenant' | 'super';

interface HarnessOptions {
  tenant?: Partial<TenantInfo>;
  /** UID of the super cluster that the tenant was made on; its real one is `super`. */
  superIdentity?: string;
  /** Gates besides those of the product, by name of the kind. */
  gates?: Readonly<Record<string, ActionGate>>;
}

/**
 * A reconciler with nothing around it: servers are real fakes, but caches show only what a test puts there,
 * so that any race can be set up by hand.
 */
export class ReconcilerHarness implements AsyncDisposable {
  readonly clock = new FakeClock();
  readonly tenant: FakeCluster;
  readonly super: FakeCluster;
  readonly superCaches = new Caches(allKinds, 'super', superWatches);
  readonly superIdentity: IdentityGuard;
  readonly state: TenantState;
  readonly reconciler: Reconciler;
  readonly tokens: PodTokenController;
  readonly reports: string[] = [];
  /** Ids of the keys that were queued, in order. */
  readonly queued: string[] = [];

  private constructor(
    tenant: FakeCluster,
    superCluster: FakeCluster,
    { tenant: info, superIdentity, gates = {} }: HarnessOptions,
  ) {
    this.tenant = tenant;
    this.super = superCluster;
    tenant.server.put(resources.namespaces, { metadata: { name: 'kube-system', uid: 'tenant' } });
    superCluster.server.put(resources.namespaces, { metadata: { name: 'kube-system', uid: 'super' } });
    this.superIdentity = new IdentityGuard(superCluster.client, undefined);
    this.state = new TenantState({
      info: testTenant(info),
      client: tenant.client,
      caches: new Caches(allKinds, 'tenant'),
      superCaches: this.superCaches,
      identity: 'tenant',
      superIdentity,
      nowMs: () => this.clock.now(),
    });
    const options = {
      superClient: superCluster.client,
      superCaches: this.superCaches,
      superIdentity: this.superIdentity,
      enqueue: (_tenant: TenantState, key: KeyRef) => this.queued.push(keyId(key)),
      onMismatch: (_tenant: TenantState, side: Side) => this.reports.push(`mismatch ${side}`),
      onHeld: () => this.reports.push('held'),
    };
    this.tokens = new PodTokenController({
      ...options,
      tenant: (uid) => (uid === this.state.info.uid ? this.state : undefined),
      quota: {
        ...{ reserve: () => undefined, enlarge: () => undefined, giveBack: () => undefined },
        chargeDeletion: () => this.reports.push('deletion charged'),
      },
    });
    this.reconciler = new Reconciler({
      ...options,
      kinds: allKinds,
      gates: new Map([...actionGates(superCluster.client, this.superCaches), ...Object.entries(gates)]),
    });
  }

  static async start(options: HarnessOptions = {}): Promise<ReconcilerHarness> {
    return new ReconcilerHarness(await startFakeCluster(), await startFakeCluster(), options);
  }

  get shop(): string {
    return this.state.superNamespace('shop');
  }

  /** The server has it and the cache shows it. */
  have(side: Side, resource: Resource, object: KubeObject): KubeObject {
    const stored = this.server(side, resource, object);
    this.show(side, resource, stored);
    return stored;
  }

  /** The server has it; the cache does not know yet. */
  server(side: Side, resource: Resource, object: KubeObject): KubeObject {
    return this[side].server.put(resource, object);
  }

  /** The cache shows it, whatever the server has. */
  show(side: Side, resource: Resource, object: KubeObject): void {
    this.#caches(side).store(resource).apply('ADDED', structuredClone(object));
  }

  hide(side: Side, resource: Resource, object: KubeObject): void {
    this.#caches(side).store(resource).apply('DELETED', structuredClone(object));
  }

  /** The tenant's namespace and its super namespace, on both sides and in both caches. */
  namespace(name: string): KubeObject {
    const own = this.have('tenant', resources.namespaces, { metadata: { name } });
    this.have('super', resources.namespaces, this.superNamespaceOf(own));
    return own;
  }

  superNamespaceOf(own: KubeObject): KubeObject {
    const kind = allKinds.find(({ name }) => name === 'namespaces') as DownKind;
    return kind.toSuper(own, this.state.context());
  }

  /** The super object as it was made from this tenant object. */
  superOf(own: KubeObject, parts: Record<string, unknown> = {}): KubeObject {
    return { ...parts, metadata: superMetadata(own, this.state.context()) };
  }

  async reconcile(kind: string, name: string, namespace?: string): Promise<Outcome> {
    const key: KeyRef = namespace === undefined ? { kind, name } : { kind, namespace, name };
    const controller = kind === this.tokens.name ? this.tokens : this.reconciler;
    return controller.reconcile(this.state, key, new AbortController().signal);
  }

  /** What was asked of a server, `verb plural`, reads of kube-system left out. */
  asked(side: Side): string[] {
    return this[side].server.requests
      .filter(({ name }) => name !== 'kube-system')
      .map(({ verb, plural }) => `${verb} ${plural}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.tenant[Symbol.asyncDispose]();
    await this.super[Symbol.asyncDispose]();
  }

  #caches(side: Side): Caches {
    return side === 'tenant' ? this.state.caches : this.superCaches;
  }
}
