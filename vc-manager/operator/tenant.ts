import { annotationKeys, finalizer, labelKeys } from '../../api/labels.ts';
import { apiVersion, idPattern } from '../../api/names.ts';
import type { EffectivePolicy, VirtualClusterPolicy } from '../../api/policy.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import {
  type Clock,
  ignoreNotFound,
  isConflict,
  type KubeClient,
  type ObjectRef,
  type OwnerReference,
  resources,
} from '../../kube/index.ts';
import type { TemplateChoice } from '../control-plane/template.ts';
import type { DatastoreLocation, Location } from '../drivers/driver.ts';
import type { AuthorityState, EncryptionState, TenantPki } from '../pki/index.ts';
import { objectReplaced, tenantTooSlow } from './errors.ts';
import type { Services } from './services.ts';
import type { StatusWriter } from './status-writer.ts';

/**
 * How long the answers of a tenant's API server may take, all together: it may answer each call just in time, and a
 * manager has few workers.
 */
export class CallTimeBudget {
  readonly #longestMs: number;
  #leftMs: number;

  constructor(longestMs: number) {
    this.#longestMs = longestMs;
    this.#leftMs = longestMs;
  }

  /** `work` gets the signal for its calls. Rejects with what it rejects with: when the time is up, TenantTooSlow. */
  async within<T>(signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const over = new AbortController();
    const timer = setTimeout(() => over.abort(tenantTooSlow(this.#longestMs)), this.#leftMs);
    const startedAt = performance.now();
    try {
      return await work(AbortSignal.any([signal, over.signal]));
    } finally {
      clearTimeout(timer);
      this.#leftMs = Math.max(0, this.#leftMs - (performance.now() - startedAt));
    }
  }
}

interface TenantOptions {
  virtualCluster: VirtualCluster;
  status: StatusWriter;
  signal: AbortSignal;
  clock: Clock;
  /** Called with each step that begins. */
  onStep?: ((step: { name: string; doing: string }) => void) | undefined;
  /** Connects to the tenant's own API server, as the manager. */
  connect: (tenant: Tenant) => KubeClient;
}

/** For what each reconcile asks of its API server in a few calls. One that was not used yet takes longer, and is honest. */
const longestAnswersMs = { first: 120_000, later: 30_000 };

/** One VirtualCluster during one reconcile: what its steps know and pass on to later ones. */
export class Tenant {
  readonly key: string;
  readonly uid: string;
  readonly ref: ObjectRef & { namespace: string };
  readonly status: StatusWriter;
  readonly signal: AbortSignal;
  readonly clock: Clock;
  readonly onStep: TenantOptions['onStep'];
  /** Set by the step `policy`: what limits it, if anything but the defaults does. */
  ceiling: VirtualClusterPolicy | undefined;
  /** Set by the step `policy`: what it may. */
  policy: EffectivePolicy | undefined;
  /** Set by the step `address` where the driver decides on it. */
  location: Location | undefined;
  /** Set by the step `address` where it has an etcd of its own. */
  ownDatastore: DatastoreLocation | undefined;
  /** Set by the step `other-datastore` of a move: an etcd of its own that it comes from or goes to, and does not use at present. */
  other:
    | {
        choice: TemplateChoice;
        location: Location | undefined;
        datastore: DatastoreLocation;
        isSameDriver: boolean;
      }
    | undefined;
  /** Set by the step `certificates`: its authorities were made in this reconcile, and nobody else has had them. */
  hasNewPki = false;
  /** Set by the step `certificates`. */
  pki: TenantPki | undefined;
  /** Set by the step `certificates`. */
  authorities: AuthorityState | undefined;
  /** Set by the step `certificates`, and changed by `encryption`. */
  encryption: EncryptionState | undefined;
  /** Set by the step `certificates`: when the first certificate is due. */
  renewAt: Date | undefined;
  /** Set by the step `version`. */
  choice: TemplateChoice | undefined;
  /** Set by the step `version`: the version that runs is to be changed. */
  change: { from: string; to: string } | undefined;
  /** Set by the step `defaults`: nothing was in its datastore before its API server started in this reconcile. */
  beganEmpty = false;
  /** Set by a step that waits for something: reconcile again after this long at the latest. */
  lookAgainMs = Number.POSITIVE_INFINITY;
  /** Set by a step whose job goes on in a later reconcile, or cannot go on for the reason `failing`. */
  unfinished: Unfinished | undefined;
  /** Set by a step that has more to say of its job that ends well. */
  jobMessage: string | undefined;
  /** Warnings for the message of the condition Ready, although the control plane is well. */
  readonly notes: string[] = [];
  /** Set by the step `control-plane`: settles when all components are ready. May be left without a handler: `close` awaits it. */
  components: Promise<void> = Promise.resolve();
  /** For the steps that ask its API server each time; not for waits until it is there, nor for jobs, which have limits of their own. */
  readonly answerTime: CallTimeBudget;
  readonly #connect: (tenant: Tenant) => KubeClient;
  readonly #over = new AbortController();
  #client: KubeClient | undefined;

  constructor(options: TenantOptions) {
    const { name, namespace, uid } = options.virtualCluster.metadata;
    if (!name || !namespace || !uid) throw new TypeError('a VirtualCluster without name, namespace or uid');
    this.key = `${namespace}/${name}`;
    this.ref = { namespace, name };
    this.uid = uid;
    this.status = options.status;
    this.answerTime = new CallTimeBudget(longestAnswersMs[this.wasReady ? 'later' : 'first']);
    this.signal = options.signal;
    this.clock = options.clock;
    this.onStep = options.onStep;
    this.#connect = options.connect;
  }

  /** The VirtualCluster as last read or written. */
  get vc(): VirtualCluster {
    return this.status.current;
  }

  /** Root of all names; set by the step `identity`. */
  get id(): string {
    return this.required(this.vc.status?.id, 'id');
  }

  /** The tenant was usable once: kubeconfigs and pods have its addresses, which are not changed any more. */
  get wasReady(): boolean {
    return this.vc.status?.identities?.tenant !== undefined;
  }

  /** The API server was started once: its datastore holds the service range, which is not changed any more. */
  get wasStarted(): boolean {
    return this.vc.status?.version !== undefined;
  }

  /** A value that an earlier step has set. */
  required<T>(value: T | undefined, what: string): T {
    if (value === undefined) throw new Error(`${this.key} has no ${what} yet; an earlier step makes it`);
    return value;
  }

  /** Labels of the objects in its own namespace that belong to it. */
  get labels(): Record<string, string> {
    return { [labelKeys.virtualCluster]: this.ref.name, [labelKeys.managedBy]: 'skerry' };
  }

  get ownerReference(): OwnerReference {
    const { kind } = resources.virtualClusters;
    return {
      apiVersion,
      kind,
      name: this.ref.name,
      uid: this.uid,
      controller: true,
      blockOwnerDeletion: false,
    };
  }

  get client(): KubeClient {
    this.#client ??= this.#connect(this);
    return this.#client;
  }

  /** Its API server is at another address now; call it when nothing is asked of it. */
  async reconnect(): Promise<void> {
    const client = this.#client;
    this.#client = undefined;
    await client?.connection.close();
  }

  /** Resolves when one component is ready; `components` starts the others meanwhile, until `close`. */
  async untilReady(
    component: string,
    start: (options: { signal: AbortSignal; onReady: (component: string) => void }) => Promise<void>,
  ): Promise<void> {
    const ready = Promise.withResolvers<void>();
    this.components = start({
      signal: AbortSignal.any([this.signal, this.#over.signal]),
      onReady: (name) => {
        if (name === component) ready.resolve();
      },
    });
    await Promise.race([ready.promise, this.components]);
  }

  async close(): Promise<void> {
    this.#over.abort();
    await this.components.catch(() => undefined);
    await this.reconnect();
  }
}

/**
 * The id under which processes, files and keys of this tenant may exist: from the status or, when the manager died before it
 * wrote that, from the annotation, which it writes first. Undefined when there is none, or when it is
 * another VirtualCluster's: an annotation is easily edited.
 */
export function ownedId(tenant: Tenant, { allocations }: Services): string | undefined {
  const id = tenant.vc.status?.id ?? tenant.vc.metadata.annotations?.[annotationKeys.id];
  if (id === undefined || !idPattern.test(id)) return undefined;
  return allocations.ownerOfId(id, tenant.uid) === undefined ? id : undefined;
}

interface MetadataChange {
  finalizers?: string[];
  annotations?: Record<string, string>;
}

/**
 * Changes the VirtualCluster's own metadata; `change` says what, from what is there, or undefined for
 * nothing. Reads and tries again on a conflict.
 */
export async function changeMetadata(
  tenant: Tenant,
  { client }: Pick<Services, 'client'>,
  change: (current: VirtualCluster) => MetadataChange | undefined,
): Promise<void> {
  const { signal } = tenant;
  for (let current = tenant.vc; ; ) {
    const wanted = change(current);
    if (wanted === undefined) return;
    const { uid, resourceVersion } = current.metadata;
    try {
      const patch = { metadata: { ...wanted, uid, resourceVersion } };
      const changed = await client.patch<VirtualCluster>(resources.virtualClusters, tenant.ref, patch, {
        type: 'merge',
        signal,
      });
      tenant.status.adopt(changed);
      return;
    } catch (error) {
      if (!isConflict(error)) throw error;
    }
    current = await client.get<VirtualCluster>(resources.virtualClusters, tenant.ref, { signal });
    if (current.metadata.uid !== tenant.uid) throw objectReplaced(tenant.key);
  }
}

/** Nothing of it is left that is its own: it goes. */
export async function dropFinalizer(
  tenant: Tenant,
  services: Pick<Services, 'client' | 'allocations'>,
): Promise<void> {
  await ignoreNotFound(
    changeMetadata(tenant, services, ({ metadata }) => {
      if (!metadata.finalizers?.includes(finalizer)) return undefined;
      return { finalizers: metadata.finalizers.filter((each) => each !== finalizer) };
    }),
  );
  services.allocations.forget(tenant.uid);
}

interface Unfinished {
  step?: string;
  progress?: string;
  failing?: string;
  againAfterMs: number;
  /** It waits for something else than the control plane, and it is not known for how long: the tenant may fall asleep. */
  maySleep?: boolean;
}
