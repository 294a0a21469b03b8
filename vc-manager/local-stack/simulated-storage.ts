import { extname, join } from 'node:path';
import { labelKeys } from '../../api/labels.ts';
import {
  Backoff,
  type Clock,
  createIfAbsent,
  deleteIfPresent,
  type KubeClient,
  type KubeObject,
  Reflector,
  type ReflectorProblem,
  resource,
  resources,
  Store,
  systemClock,
  withoutUndefined,
} from '../../kube/index.ts';
import type { ComponentPlan } from '../control-plane/plan.ts';
import { simulatedCsiDriver, simulatedProvisionerName, simulatedStorageClass } from './simulated-nodes.ts';
import { type SuperClusterPlanOptions, superClusterKubeconfig } from './super-cluster-plan.ts';

interface Claim extends KubeObject {
  spec?: {
    accessModes?: string[];
    resources?: { requests?: { storage?: string } };
    storageClassName?: string;
    volumeMode?: string;
    volumeName?: string;
  };
  status?: { phase?: string; capacity?: { storage?: string } };
}

export interface Volume extends KubeObject {
  spec?: {
    capacity?: { storage?: string };
    claimRef?: { apiVersion?: string; kind?: string; namespace?: string; name?: string; uid?: string };
    persistentVolumeReclaimPolicy?: string;
    [field: string]: unknown;
  };
  status?: { phase?: string };
}

const provisionedBy = 'pv.kubernetes.io/provisioned-by';

/** Whether the claim waits for us: the binder says so, once a node has been chosen where one is needed. */
function wantsVolume(claim: Claim): boolean {
  return (
    claim.metadata.annotations?.['volume.kubernetes.io/storage-provisioner'] === simulatedProvisionerName &&
    claim.metadata.deletionTimestamp === undefined &&
    claim.spec?.volumeName === undefined
  );
}

function isOurs(volume: Volume): boolean {
  return volume.metadata.annotations?.[provisionedBy] === simulatedProvisionerName;
}

/** Whether the volume's claim is gone and its policy is not to retain it. */
function isToBeDeleted(volume: Volume): boolean {
  return (
    isOurs(volume) &&
    volume.status?.phase === 'Released' &&
    volume.spec?.persistentVolumeReclaimPolicy === 'Delete' &&
    volume.metadata.deletionTimestamp === undefined
  );
}

/** The name follows from the claim's UID: a second attempt finds the volume of the first. */
function volumeName(claim: Claim): string {
  return `pvc-${claim.metadata.uid}`;
}

function volumeFor(claim: Claim, reclaimPolicy: string): Volume {
  const { metadata, spec = {} } = claim;
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: {
      name: volumeName(claim),
      labels: { [labelKeys.simulated]: 'true' },
      annotations: { [provisionedBy]: simulatedProvisionerName },
    },
    spec: {
      capacity: { storage: spec.resources?.requests?.storage ?? '1Gi' },
      accessModes: spec.accessModes ?? ['ReadWriteOnce'],
      volumeMode: spec.volumeMode ?? 'Filesystem',
      persistentVolumeReclaimPolicy: reclaimPolicy,
      storageClassName: spec.storageClassName ?? '',
      claimRef: {
        apiVersion: 'v1',
        kind: 'PersistentVolumeClaim',
        ...withoutUndefined({ namespace: metadata.namespace, name: metadata.name, uid: metadata.uid }),
      },
      csi: { driver: simulatedCsiDriver, volumeHandle: volumeName(claim) },
    },
  };
}

const csiDrivers = resource('storage.k8s.io', 'v1', 'csidrivers', 'CSIDriver', false);

/** Makes sure that claims can be made: the default StorageClass `simulated`, published to tenants. */
export async function createSimulatedStorage(client: KubeClient, signal: AbortSignal): Promise<void> {
  await createIfAbsent(client, csiDrivers, csiDriver(), { signal });
  await createIfAbsent(client, resources.storageClasses, storageClass(), { signal });
}

function storageClass(): KubeObject {
  return {
    apiVersion: 'storage.k8s.io/v1',
    kind: 'StorageClass',
    metadata: {
      name: simulatedStorageClass,
      labels: { [labelKeys.simulated]: 'true', [labelKeys.public]: 'true' },
      annotations: { 'storageclass.kubernetes.io/is-default-class': 'true' },
    },
    provisioner: simulatedProvisionerName,
    reclaimPolicy: 'Delete',
    volumeBindingMode: 'Immediate',
    allowVolumeExpansion: true,
  };
}

// Without it the controller manager would wait for an attacher that does not exist.
function csiDriver(): KubeObject {
  return {
    apiVersion: 'storage.k8s.io/v1',
    kind: 'CSIDriver',
    metadata: { name: simulatedCsiDriver, labels: { [labelKeys.simulated]: 'true' } },
    spec: { attachRequired: false, podInfoOnMount: false, fsGroupPolicy: 'None' },
  };
}

interface SimulatedProvisionerOptions {
  client: KubeClient;
  clock?: Clock;
  onProblem: (error: unknown) => void;
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
    this.#onProblem = options.onProblem;
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
    const onProblem = ({ error }: ReflectorProblem): void => this.#onProblem(error);
    const common = { client: this.#client, clock: this.#clock, onProblem };
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
    await createIfAbsent(this.#client, resources.persistentVolumes, volume, { signal });
  }

  async #deleteVolume(volume: Volume, signal: AbortSignal): Promise<void> {
    const { name = '', uid, resourceVersion } = volume.metadata;
    // Where it has changed, its event brings us back.
    const options = { uid, resourceVersion, signal };
    await deleteIfPresent(this.#client, resources.persistentVolumes, { name }, options);
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

export interface StoragePlanOptions extends Pick<SuperClusterPlanOptions, 'pki' | 'ports' | 'bindAddress'> {
  packageVersion: string | undefined;
}

/** The provisioner of simulated volumes, as a process of its own. */
export function storagePlan(options: StoragePlanOptions): ComponentPlan[] {
  const program = join(import.meta.dirname, `provisioner-main${extname(import.meta.filename)}`);
  return [
    {
      name: 'simulated-storage',
      binary: { command: process.execPath },
      args: [program, '${files}/kubeconfig'],
      // Restarts it when there is a new one: the path of the program stays.
      env: options.packageVersion === undefined ? {} : { SKERRY_VERSION: options.packageVersion },
      files: [
        {
          path: 'kubeconfig',
          content: superClusterKubeconfig(options, 'system:kwok', options.pki.kwok),
          mode: 0o600,
        },
      ],
      ports: [],
      dependsOn: ['kube-apiserver'],
      stopTimeoutMs: 5000,
    },
  ];
}
