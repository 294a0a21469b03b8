import { randomBytes, randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { annotationKeys, syncerLabel } from '../../api/labels.ts';
import { holderVersion } from '../../api/program-versions.ts';
import {
  type Clock,
  type ClockReading,
  CodedError,
  elapsedMs,
  ignoreNotFound,
  isAlreadyExists,
  isConflict,
  isNotFound,
  type Lease,
  microTime,
  readClock,
  resources,
} from '../../kube/index.ts';
import { leaseName, type ShardClient } from './shard-map.ts';

/** This replica has not kept its Lease: others may serve its tenants by now, and until that is known it writes nothing. */
export class LeaseLapsed extends CodedError<'LeaseLapsed'> {
  override readonly name = 'LeaseLapsed';

  constructor() {
    const message = 'the Lease of this replica was not renewed in time; nothing is written until it is';
    super('LeaseLapsed', message, true);
  }
}

/** Another process has taken over the name of this replica. */
export class ReplicaReplaced extends CodedError<'ReplicaReplaced'> {
  override readonly name = 'ReplicaReplaced';

  constructor(replica: string, holder: string) {
    super(
      'ReplicaReplaced',
      `another vc-syncer has started as replica "${replica}" (${holder}), so this one stops; give each that runs at the same time a --replica of its own`,
      false,
    );
  }
}

interface ReplicaIdentity {
  /** Of its Lease, and in the map of buckets. */
  readonly replica: string;
  /** The name was given. */
  readonly isNamed: boolean;
  /** Of this process alone. */
  readonly identity: string;
}

/** Who this replica is; one without a name gets one that no other has. */
export function replicaIdentity(given: string | undefined): ReplicaIdentity {
  const replica = given ?? `${asName(hostname())}-${randomBytes(4).toString('hex')}`;
  return { replica, isNamed: given !== undefined, identity: `${replica}_${randomUUID()}` };
}

function asName(host: string): string {
  const name = host
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, 40)
    .replace(/^-+|-+$/g, '');
  return name === '' ? 'syncer' : name;
}

interface FenceOptions {
  /** How long after a renewal was sent no other replica can have taken over; less than others wait. */
  windowMs: number;
  clock: Clock;
  /** A write was refused. */
  onRefused?: () => void;
}

/** Lets writes out only while this replica surely has what it serves. Closed at first, and closes by itself. */
export class Fence {
  readonly windowMs: number;
  readonly #clock: Clock;
  readonly #onRefused: (() => void) | undefined;
  #renewedAt: ClockReading | undefined;

  constructor({ windowMs, clock, onRefused }: FenceOptions) {
    this.windowMs = windowMs;
    this.#clock = clock;
    this.#onRefused = onRefused;
  }

  get isOpen(): boolean {
    return this.#renewedAt !== undefined && elapsedMs(this.#renewedAt, this.#clock) < this.windowMs;
  }

  /** Open for one window from when that renewal was sent. */
  open(renewedAt: ClockReading): void {
    this.#renewedAt = renewedAt;
  }

  close(): void {
    this.#renewedAt = undefined;
  }

  /** For `beforeWrite` of a connection. Throws LeaseLapsed when closed. */
  check(): void {
    if (this.isOpen) return;
    this.#onRefused?.();
    throw new LeaseLapsed();
  }
}

interface OwnLeaseOptions {
  client: ShardClient;
  namespace: string;
  replica: string;
  /** Tells this process from every other one that had or will have the name. */
  identity: string;
  /** How long others wait for one that says nothing. */
  durationMs: number;
  /** How long after a renewal was sent it surely holds. */
  windowMs: number;
  /** Where the metrics of this replica are, as a URL. */
  metricsAddress?: string | undefined;
  /** Of this program. */
  version?: string | undefined;
  clock: Clock;
}

/** Before the window of the last renewal is over, there is time for two more tries. */
const callTimeoutMs = 2_000;

/** The Lease by which the others know that this replica is alive. */
export class OwnLease {
  readonly #options: OwnLeaseOptions;
  #lease: Lease | undefined;
  #renewedAt: ClockReading | undefined;
  #term = 0;
  /** A write was sent, whatever came of it. */
  #mayHave = false;

  constructor(options: OwnLeaseOptions) {
    this.#options = options;
  }

  /** When the last renewal that arrived was sent. */
  get renewedAt(): ClockReading | undefined {
    return this.#renewedAt;
  }

  /** Counts up when a renewal comes too late for the one before: in between, others may have taken over. */
  get term(): number {
    return this.#term;
  }

  /** Whether no other replica can consider this one dead. */
  get isFresh(): boolean {
    return (
      this.#renewedAt !== undefined &&
      elapsedMs(this.#renewedAt, this.#options.clock) < this.#options.windowMs
    );
  }

  /** Takes the Lease over from an earlier process of this name, or makes it. */
  async take(signal: AbortSignal): Promise<void> {
    const sentAt = readClock(this.#options.clock);
    const present = await this.#read(signal);
    await this.#write(present, sentAt);
  }

  /** Throws ReplicaReplaced when another process has taken the name over, and what the client throws. */
  async renew(signal: AbortSignal): Promise<void> {
    const sentAt = readClock(this.#options.clock);
    try {
      await this.#write(this.#lease, sentAt);
    } catch (error) {
      if (!isConflict(error) && !isNotFound(error) && !isAlreadyExists(error)) throw error;
      // An earlier try has arrived after all, or another client has written it.
      const present = await this.#read(signal);
      const holder = present?.spec?.holderIdentity;
      if (holder && holder !== this.#options.identity) {
        throw new ReplicaReplaced(this.#options.replica, holder);
      }
      this.#lease = present;
      await this.#write(present, sentAt);
    }
  }

  /** Lets the others know at once that this replica is no more, also when the answer to a write did not come. */
  async release(): Promise<void> {
    if (!this.#mayHave) return;
    const { client, identity } = this.#options;
    const present = await this.#read();
    if (present?.spec?.holderIdentity !== identity) return;
    const { uid, resourceVersion } = present.metadata;
    await client.delete(resources.leases, this.#ref, { uid, resourceVersion, timeoutMs: callTimeoutMs });
  }

  get #ref(): { namespace: string; name: string } {
    return { namespace: this.#options.namespace, name: leaseName(this.#options.replica) };
  }

  async #read(signal?: AbortSignal): Promise<Lease | undefined> {
    const { client } = this.#options;
    return ignoreNotFound(
      client.get<Lease>(resources.leases, this.#ref, { signal, timeoutMs: callTimeoutMs }),
    );
  }

  /** Not given up when this replica stops: what is written has to be released. */
  async #write(present: Lease | undefined, sentAt: ClockReading): Promise<void> {
    const { client } = this.#options;
    const options = { timeoutMs: callTimeoutMs };
    const wanted = this.#wanted(present);
    this.#mayHave = true;
    this.#lease =
      present === undefined
        ? await client.create<Lease>(resources.leases, wanted, options)
        : await client.update<Lease>(resources.leases, wanted, options);
    if (!this.isFresh) this.#term += 1;
    this.#renewedAt = sentAt;
  }

  #wanted(present: Lease | undefined): Lease {
    const { identity, durationMs, metricsAddress, version, clock } = this.#options;
    const now = microTime(clock.now());
    const isMine = present?.spec?.holderIdentity === identity;
    const { annotations = {}, labels = {} } = present?.metadata ?? {};
    return {
      ...present,
      metadata: {
        ...present?.metadata,
        ...this.#ref,
        labels: { ...labels, ...syncerLabel },
        annotations: {
          ...annotations,
          ...(metricsAddress === undefined ? {} : { [annotationKeys.metricsAddress]: metricsAddress }),
          ...(version === undefined ? {} : holderVersion(version, identity)),
        },
      },
      spec: {
        ...present?.spec,
        holderIdentity: identity,
        leaseDurationSeconds: Math.ceil(durationMs / 1000),
        renewTime: now,
        acquireTime: isMine ? (present?.spec?.acquireTime ?? now) : now,
        leaseTransitions: (present?.spec?.leaseTransitions ?? 0) + (isMine || present === undefined ? 0 : 1),
      },
    };
  }
}
