import {
  Backoff,
  type Clock,
  isAlreadyExists,
  isConflict,
  isNotFound,
  type KubeClient,
  type KubeObject,
  Reflector,
  resources,
  Store,
  systemClock,
} from '../../kube/index.ts';
import {
  type Claim,
  isOurs,
  isToBeDeleted,
  type Volume,
  volumeFor,
  volumeName,
  wantsVolume,
} from './simulated-volume.ts';

export interface SimulatedProvisionerOptions {
  client: KubeClient;
  clock?: Clock;
  onProblem?: (error: unknown) => void;
}

const parallel = 8;

/**
 * Gives claims of the simulated storage class volumes that exist only as objects, lets them grow, and
 * removes them when they are released.
 */
export class SimulatedProvisioner {
  readonly #client: KubeClient;
  readonly #clock: Clock;
  readonly #onProblem: (error: unknown) => void;
  readonly #claims = new Store<Claim>();
  readonly #volumes = new Store<Volume>();
  /** Keys of objects to look at: `claim/<namespace>/<name>` or `volume/<name>`; each at most once. */
  readonly #pending = new Set<string>();
  readonly #busy = new Set<string>();
  #wake: (() => void) | undefined;

  constructor(options: SimulatedProvisionerOptions) {
    this.#client = options.client;
    this.#clock = options.clock ?? systemClock;
    this.#onProblem = options.onProblem ?? (() => undefined);
  }

  /** Works until aborted. Faults of the server are waited out. */
  async run(signal: AbortSignal): Promise<void> {
    const stops = [
      this.#claims.subscribe(({ object }) =>
        this.#add(`claim/${object.metadata.namespace}/${object.metadata.name}`),
      ),
      this.#volumes.subscribe(({ object }) => {
        this.#add(`volume/${object.metadata.name}`);
        const claim = object.spec?.claimRef;
        if (claim !== undefined) this.#add(`claim/${claim.namespace}/${claim.name}`);
      }),
    ];
    const common = { client: this.#client, clock: this.#clock };
    const claims = new Reflector({
      ...common,
      resource: resources.persistentVolumeClaims,
      store: this.#claims,
    });
    const volumes = new Reflector({ ...common, resource: resources.persistentVolumes, store: this.#volumes });
    const workers = Array.from({ length: parallel }, () => this.#work(signal));
    signal.addEventListener('abort', () => this.#wake?.(), { once: true });
    try {
      await Promise.all([claims.run(signal), volumes.run(signal), ...workers]);
    } finally {
      for (const stop of stops) stop();
    }
  }

  #add(key: string): void {
    this.#pending.add(key);
    this.#wake?.();
  }

  async #work(signal: AbortSignal): Promise<void> {
    const backoff = new Backoff({ clock: this.#clock, random: Math.random });
    while (!signal.aborted) {
      const key = this.#take();
      if (key === undefined) {
        await this.#changed(signal);
        continue;
      }
      try {
        await this.#handle(key, signal);
      } catch (error) {
        if (signal.aborted) return;
        this.#onProblem(error);
        this.#pending.add(key);
        await this.#clock.sleep(backoff.next(), signal).catch(() => undefined);
      } finally {
        this.#busy.delete(key);
        this.#wake?.();
      }
    }
  }

  #take(): string | undefined {
    for (const key of this.#pending) {
      if (this.#busy.has(key)) continue;
      this.#pending.delete(key);
      this.#busy.add(key);
      return key;
    }
    return undefined;
  }

  #changed(signal: AbortSignal): Promise<void> {
    const before = this.#wake;
    return new Promise((resolve) => {
      if (signal.aborted) resolve();
      this.#wake = () => {
        this.#wake = undefined;
        before?.();
        resolve();
      };
    });
  }

  async #handle(key: string, signal: AbortSignal): Promise<void> {
    const [kind, first = '', second = ''] = key.split('/');
    if (kind === 'volume') {
      const volume = this.#volumes.get({ name: first });
      if (volume !== undefined && isToBeDeleted(volume)) await this.#deleteVolume(volume, signal);
      return;
    }
    const claim = this.#claims.get({ namespace: first, name: second });
    if (claim === undefined) return;
    if (wantsVolume(claim)) await this.#provision(claim, signal);
    else if (claim.spec?.volumeName !== undefined) await this.#grow(claim, claim.spec.volumeName, signal);
  }

  async #provision(claim: Claim, signal: AbortSignal): Promise<void> {
    if (this.#volumes.get({ name: volumeName(claim) }) !== undefined) return;
    const name = claim.spec?.storageClassName ?? '';
    const storageClass = await this.#client.get<KubeObject & { reclaimPolicy?: string }>(
      resources.storageClasses,
      { name },
      { signal },
    );
    const volume = volumeFor(claim, storageClass.reclaimPolicy ?? 'Delete');
    await unless(isAlreadyExists, this.#client.create(resources.persistentVolumes, volume, { signal }));
  }

  async #deleteVolume(volume: Volume, signal: AbortSignal): Promise<void> {
    const { name = '', uid, resourceVersion } = volume.metadata;
    const still = { ...(uid && { uid }), ...(resourceVersion && { resourceVersion }) };
    // A conflict means that it has changed: its event brings us back.
    await unless(
      (error) => isNotFound(error) || isConflict(error),
      this.#client.delete(resources.persistentVolumes, { name }, { ...still, signal }),
    );
  }

  // The volume first, as a real driver does, then the claim tells its user.
  async #grow(claim: Claim, name: string, signal: AbortSignal): Promise<void> {
    const volume = this.#volumes.get({ name });
    const wanted = claim.spec?.resources?.requests?.storage;
    const { phase, capacity } = claim.status ?? {};
    if (volume === undefined || !isOurs(volume) || phase !== 'Bound' || wanted === undefined) return;
    // The server lets a request only grow, so another size is a larger one.
    if (volume.spec?.capacity?.storage !== wanted) {
      const patch = { spec: { capacity: { storage: wanted } } };
      await this.#client.patch(resources.persistentVolumes, { name }, patch, { type: 'merge', signal });
    }
    if (capacity?.storage !== wanted) {
      const ref = { namespace: claim.metadata.namespace, name: claim.metadata.name ?? '' };
      const patch = { status: { capacity: { storage: wanted } } };
      await this.#client.patch(resources.persistentVolumeClaims, ref, patch, {
        type: 'merge',
        subresource: 'status',
        signal,
      });
    }
  }
}

async function unless(expected: (error: unknown) => boolean, call: Promise<unknown>): Promise<void> {
  try {
    await call;
  } catch (error) {
    if (!expected(error)) throw error;
  }
}
