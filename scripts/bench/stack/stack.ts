import type { ConnectionOptions } from '../../../kube/index.ts';
import type { BenchProcess } from '../measure/process-groups.ts';

/** How the syncer is to run. */
export interface SyncerFlags {
  fair: boolean;
}

/** A super cluster with manager and syncer, to be measured. */
export interface Stack {
  readonly superCluster: ConnectionOptions;
  /** Empty where processes cannot be seen: another machine, or no /proc. */
  processes(): Promise<BenchProcess[]>;
  /**
   * Restarts the syncer with other flags, unless it runs with these already; resolves when it is up
   * again, which is before it has caught up. Absent: the syncer is not ours to restart.
   */
  setSyncer?(flags: SyncerFlags, signal: AbortSignal): Promise<void>;
  /** Stops the syncer as a person would and starts it again; resolves when the new process is there. */
  restartSyncer?(signal: AbortSignal): Promise<void>;
  /** Whether the syncer says that it is ready; false while nothing answers. */
  syncerReady?(): Promise<boolean>;
  /** Metrics of the tenants' datastore. */
  datastoreMetrics?(): Promise<string>;
  /** The syncer's metrics as Prometheus' text. Absent: nobody knows where they are. */
  syncerMetrics?(): Promise<string>;
  /** What may explain a failure: the last lines of the logs. */
  lastWords?(): Promise<string>;
  /** Ends what was started and removes its state. */
  close(): Promise<void>;
}
