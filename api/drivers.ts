/** What can run control planes: processes of the manager's machine, containers, or pods of the super cluster. */
export const driverNames = ['process', 'compose', 'kubernetes'] as const;

export type DriverName = (typeof driverNames)[number];

/** Of a control plane whose status names none, and of a manager that is told none. */
export const defaultDriver: DriverName = 'process';

/** What programs that do not have the driver itself go by. */
interface DriverTraits {
  /** `machine`: control planes run on the manager's machine, below its state directory; `cluster`: in the super cluster. */
  readonly runsIn: 'machine' | 'cluster';
  /**
   * How pods reach an API server where there is no gateway for them. `service`: by a Service in the super cluster, to which
   * the manager routes the first address of the tenant's service slice; `port`: where it listens.
   */
  readonly exposedBy: 'port' | 'service';
  /** An API server is replaced by one that is started beside it, also where no gateway leads clients from one to the other. */
  readonly replacesBySurge: boolean;
  /** Of the controllers; absent: that of the machine. */
  readonly timeZone?: string;
  /** What it can confine control planes in itself (`status.confinement`). */
  readonly confines: readonly ('resources' | 'egress')[];
}

const processTraits: DriverTraits = {
  runsIn: 'machine',
  exposedBy: 'port',
  replacesBySurge: false,
  confines: ['resources', 'egress'],
};

const traits: Readonly<Record<string, DriverTraits>> = {
  process: processTraits,
  compose: {
    runsIn: 'machine',
    exposedBy: 'port',
    replacesBySurge: false,
    // Containers have no other one.
    timeZone: 'UTC',
    confines: ['egress'],
  },
  kubernetes: {
    runsIn: 'cluster',
    exposedBy: 'service',
    replacesBySurge: true,
    timeZone: 'UTC',
    confines: [],
  },
} satisfies Record<DriverName, DriverTraits>;

/** One that only a later version knows counts as the default. */
export function traitsOf(driver: DriverName = defaultDriver): DriverTraits {
  return traits[driver] ?? processTraits;
}
