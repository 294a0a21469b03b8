import type { DriverName } from '../../api/drivers.ts';
import { type Clock, type KubeClient, messageOf } from '../../kube/index.ts';
import { Binaries, defaultCacheDirectory } from '../binaries/index.ts';
import { ComposeDriver } from '../drivers/compose/compose-driver.ts';
import type { ControlPlaneDriver, OnProblem } from '../drivers/driver.ts';
import { KubernetesDriver } from '../drivers/kubernetes/kubernetes-driver.ts';
import { ProcessDriver } from '../drivers/process/process-driver.ts';
import { findCgroups } from '../os/cgroups.ts';
import { type EgressTarget, egressFilterProblem } from '../os/egress-filter.ts';
import type { Cli } from './context.ts';
import { composeProjectsDirectory, controlPlanesDirectory } from './state-directory.ts';

/** Options that drivers use. */
export interface DriverFlags {
  systemNamespace: string;
  processKeeper?: string;
  imageRegistry?: string;
  storageClass?: string;
  storageSize: string;
  tenantEgress?: EgressTarget[];
}

/** What a driver works with. */
interface DriverContext {
  stateDir: string;
  /** The super cluster. */
  client: KubeClient;
  clock: Clock;
  env: Readonly<Record<string, string | undefined>>;
  onProblem: OnProblem;
}

type Driver = ControlPlaneDriver & { close(): Promise<void> };

interface DriverFactory {
  /** For the manager. */
  make(place: DriverContext, flags: DriverFlags): Driver;
  /** For commands that only list, read logs, or remove. */
  reader(place: Omit<DriverContext, 'env'>): Driver;
}

/**
 * On one machine the super cluster, its datastore and the syncer, which serve all tenants, go before the control planes
 * of tenants: three to one where both want the processors.
 */
const tenantNiceness = 5;
/**
 * At rest an API server is woken 400 times a second by timers, most of them of its watch caches: by as many as fall into
 * these ms at once it uses half of the CPU (docs/performance.md).
 */
const tenantTimerSlackMs = 20;

/** Where vc-syncer answers as the kubelet of tenants' nodes by default, on whichever address of this machine. */
const kubeletProxy: EgressTarget = { ports: [10_250, 10_250] };

/** What confines processes of control planes on this machine, as far as this user may. */
export function confinementOfProcesses(
  targets: readonly EgressTarget[] = [],
): Pick<ConstructorParameters<typeof ProcessDriver>[0], 'groups' | 'egress'> {
  return { groups: findCgroups(), egress: egressOf(targets) };
}

function egressOf(targets: readonly EgressTarget[]): readonly EgressTarget[] | undefined {
  return egressFilterProblem() === undefined ? targets : undefined;
}

const factories: Record<DriverName, DriverFactory> = {
  process: {
    make: ({ stateDir, clock, env, onProblem }, { processKeeper, tenantEgress = [kubeletProxy] }) => {
      // Of a keeper's processes only the keeper's own container sets limits.
      const confinement = processKeeper === undefined ? confinementOfProcesses(tenantEgress) : undefined;
      const driver = new ProcessDriver({
        root: controlPlanesDirectory(stateDir),
        binaries: new Binaries({ cacheDir: defaultCacheDirectory(env), env, clock }),
        clock,
        environment: { ...env },
        niceness: tenantNiceness,
        timerSlackMs: tenantTimerSlackMs,
        onProblem,
        ...(processKeeper === undefined ? confinement : { keeper: processKeeper }),
      });
      driver.removeEmptyGroups();
      return driver;
    },
    reader: ({ stateDir, onProblem }) =>
      new ProcessDriver({
        root: controlPlanesDirectory(stateDir),
        binaries: noBinaries,
        onProblem,
        ...confinementOfProcesses(),
      }),
  },
  compose: {
    make: ({ stateDir, clock, env, onProblem }, { imageRegistry, tenantEgress = [kubeletProxy] }) =>
      new ComposeDriver({
        root: composeProjectsDirectory(stateDir),
        clock,
        environment: { ...env },
        egress: egressOf(tenantEgress),
        onProblem,
        imageRegistry,
      }),
    reader: ({ stateDir, clock, onProblem }) =>
      new ComposeDriver({ root: composeProjectsDirectory(stateDir), clock, onProblem, egress: egressOf([]) }),
  },
  kubernetes: {
    make: ({ client, clock, onProblem }, flags) => {
      const { systemNamespace, imageRegistry, storageClass, storageSize, tenantEgress = [] } = flags;
      return new KubernetesDriver({
        client,
        clock,
        imageRegistry,
        storage: storageClass === undefined ? undefined : storageOf(storageClass, storageSize),
        network: { systemNamespace, egress: tenantEgress },
        onProblem,
      });
    },
    reader: ({ client, clock, onProblem }) => new KubernetesDriver({ client, clock, onProblem }),
  },
};

/** Names for the option `--driver`. */
export const driverChoices = Object.keys(factories) as DriverName[];

export const defaultStorageClass = 'default';

export function createDriver(name: DriverName, place: DriverContext, flags: DriverFlags): Driver {
  return factories[name].make(place, flags);
}

/** A driver for control planes that another process started. */
export function readOnlyDriver(name: DriverName, place: Omit<DriverContext, 'env'>): Driver {
  return factories[name].reader(place);
}

/** For commands: lines of stderr. */
export function noteProblems({ stderr }: Pick<Cli, 'stderr'>): OnProblem {
  return (error, what) => stderr.write(`note: ${what}: ${messageOf(error)}\n`);
}

export const noBinaries = {
  ensure: (): never => {
    throw new Error('a driver that only reads was asked to start something');
  },
};

function storageOf(storageClass: string, size: string): { className?: string; size: string } {
  return storageClass === defaultStorageClass ? { size } : { className: storageClass, size };
}
