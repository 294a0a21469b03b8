import { randomInt } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Binaries, defaultCacheDirectory, defaultVersions } from '../../vc-manager/binaries/index.ts';
import type { ControlPlanePlan } from '../../vc-manager/control-plane/plan.ts';
import type { ComponentListener, ControlPlaneDriver } from '../../vc-manager/drivers/driver.ts';
import { ProcessDriver } from '../../vc-manager/drivers/process/process-driver.ts';
import { EtcdAdmin } from '../../vc-manager/etcd/admin.ts';
import { datastorePlan } from '../../vc-manager/local-stack/datastore-plan.ts';
import { stackPorts } from '../../vc-manager/local-stack/stack-ports.ts';
import { freePort } from '../../vc-manager/os/network.ts';
import { ensureManagerPki, type ManagerPki } from '../../vc-manager/pki/index.ts';
import { patienceMs } from '../harness/poll.ts';

/** A driver as managers hold it: `close` looks away and lets everything run. */
export type HeldDriver = ControlPlaneDriver & { close?: () => Promise<void> };

/** Where the API server of one control plane listens, and where this machine reaches it. */
export interface ServerAddress {
  bindAddress: string;
  bindPort: number;
  host: string;
  port: number;
}

/** What the conformance suite needs to know of a driver and of the place where it works. */
export interface DriverWorld {
  /** Each one works on the same place, as a manager does that follows on another. */
  makeDriver(): HeldDriver;
  datastore: {
    /** For API servers. */
    endpoint: string;
    ensureTenant(id: string): Promise<unknown>;
    removeTenant(id: string): Promise<unknown>;
  };
  pki: ManagerPki;
  /** The same answer each time for the same control plane. */
  locate(id: string): Promise<ServerAddress>;
  /** Another patch version that the place can run; the same program may stand in for it. */
  otherVersion: string;
  /** What a driver of this kind wants to have in plans besides. */
  complete?(plan: ControlPlanePlan): ControlPlanePlan;
  /** Ends the component's process as a crash does: no driver and no supervisor has asked for it. */
  crash(id: string, component: string): Promise<void>;
  /** What there is of a control plane, by names that a person understands; empty when there is nothing. */
  traces(id: string): Promise<string[]>;
  close(): Promise<void>;
}

const { signal } = new AbortController();
const id = 'datastore';

/** The tenants' etcd as a process of this machine, on 127.0.0.1, in a directory of its own. */
class LocalDatastore {
  readonly pki: ManagerPki;
  readonly datastore: DriverWorld['datastore'];
  readonly #driver: ProcessDriver;
  readonly #admin: EtcdAdmin;

  private constructor(pki: ManagerPki, driver: ProcessDriver, admin: EtcdAdmin, endpoint: string) {
    this.pki = pki;
    this.#driver = driver;
    this.#admin = admin;
    this.datastore = {
      endpoint,
      ensureTenant: (tenant) => admin.ensureTenant(tenant),
      removeTenant: (tenant) => admin.removeTenant(tenant),
    };
  }

  static async start(directory: string, binaries: Pick<Binaries, 'ensure'>): Promise<LocalDatastore> {
    const pki = await ensureManagerPki(join(directory, 'pki'), { now: new Date() });
    const ports = await stackPorts(join(directory, 'ports.json'));
    const driver = new ProcessDriver({ root: join(directory, 'processes'), binaries });
    const components = datastorePlan({
      etcdVersion: defaultVersions.etcd,
      pki,
      ports,
      unsafeNoFsync: true,
    });
    await driver.ensure({ id, labels: {}, components }, { signal });
    const endpoint = `https://127.0.0.1:${ports['datastore-client']}`;
    const admin = new EtcdAdmin({
      endpoint: `https://127.0.0.1:${ports['datastore-http']}`,
      ca: pki.etcdCa.certPem,
      cert: pki.etcdManager.certPem,
      key: pki.etcdManager.keyPem,
      rootPassword: pki.etcdRootPassword,
    });
    return new LocalDatastore(pki, driver, admin, endpoint);
  }

  async close(): Promise<void> {
    await this.#admin.close();
    await this.#driver.remove(id, { signal });
    await this.#driver.close();
  }
}

interface ReceivedEvent {
  component: string;
  what: Parameters<ComponentListener>[2];
}

/** What a driver tells of one control plane, in order. */
export class EventLog {
  readonly #events: ReceivedEvent[] = [];
  readonly #waiting = new Set<() => void>();
  readonly #stop: () => void;

  constructor(driver: Pick<ControlPlaneDriver, 'watch'>, id: string) {
    this.#stop = driver.watch((of, component, what) => {
      if (of !== id) return;
      this.#events.push({ component, what });
      for (const look of this.#waiting) look();
    });
  }

  /** `component what`, such as `kube-apiserver ready`. */
  get told(): string[] {
    return this.#events.map(({ component, what }) => `${component} ${what}`);
  }

  /** Until all of them have been told, in this order, whatever else was told between them. */
  async until(...wanted: string[]): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const look = (): void => {
      if (isSubsequence(wanted, this.told)) resolve();
    };
    const timer = setTimeout(
      () => reject(new Error(`waited in vain for ${wanted.join(', ')}; told: ${this.told.join(', ')}`)),
      patienceMs,
    );
    this.#waiting.add(look);
    look();
    try {
      await promise;
    } finally {
      clearTimeout(timer);
      this.#waiting.delete(look);
    }
  }

  close(): void {
    this.#stop();
  }
}

function isSubsequence(wanted: readonly string[], told: readonly string[]): boolean {
  let next = 0;
  for (const event of told) if (event === wanted[next]) next++;
  return next === wanted.length;
}

interface LocalWorldParts {
  binaries: Binaries;
  /** For a driver; goes with the world. */
  root: string;
  /** All of a world that is the same for each driver whose API servers listen on ports of this machine. */
  world: Omit<DriverWorld, 'makeDriver' | 'crash' | 'traces'>;
}

export async function localWorldParts(): Promise<LocalWorldParts> {
  const directory = await mkdtemp(join(tmpdir(), 'skerry-conformance-'));
  const binaries = new Binaries({
    cacheDir: defaultCacheDirectory(process.env),
    env: process.env,
    offline: true,
  });
  const local = await LocalDatastore.start(directory, binaries);
  return {
    binaries,
    root: join(directory, 'control-planes'),
    world: {
      datastore: local.datastore,
      pki: local.pki,
      locate: addressesOfThisMachine(),
      otherVersion: defaultVersions.kubernetes.replace(/\d+$/, (patch) => String(Number(patch) + 1)),
      close: async () => {
        await local.close();
        await rm(directory, { recursive: true });
      },
    },
  };
}

/** Each control plane keeps its own. Chosen at random, for suites that run at the same time. */
function addressesOfThisMachine(): (id: string) => Promise<ServerAddress> {
  const ports = new Map<string, number>();
  const first = randomInt(21_000, 21_900);
  return async (id) => {
    const host = '127.0.0.1';
    const taken = [...ports.values()];
    const port = ports.get(id) ?? (await freePort({ host, taken, range: [first, 21_999] }));
    ports.set(id, port);
    return { bindAddress: host, bindPort: port, host, port };
  };
}
