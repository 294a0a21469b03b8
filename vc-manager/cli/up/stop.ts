import PQueue from 'p-queue';
import type { ControlPlaneDriver } from '../../drivers/driver.ts';
import { ProcessDriver } from '../../drivers/process/process-driver.ts';
import { confinementOfProcesses, noBinaries } from '../drivers.ts';
import { type Progress, withStep } from '../progress.ts';
import { controlPlanesDirectory } from '../state-directory.ts';
import { gatewayComponent, managerComponent, syncerComponent } from './components.ts';

export const stackId = 'stack';

interface StopOptions {
  stateDir: string;
  progress: Progress;
  signal: AbortSignal;
  /** Kill at once, without a grace period. */
  force?: boolean;
  /** The driver of a stack that this process has started, so that it does not restart what is stopped here. */
  driver?: Pick<ControlPlaneDriver, 'stop'>;
  /** Default: as far as this user may. */
  confinement?: ReturnType<typeof confinementOfProcesses>;
}

/**
 * Stops all processes of a state directory, also those of other processes, and keeps their state: first manager and
 * syncer, so that they restart nothing, then tenants, then super cluster and datastore.
 */
export async function stopAll({
  stateDir,
  progress,
  signal,
  force,
  driver,
  confinement = confinementOfProcesses(),
}: StopOptions): Promise<void> {
  const options = { signal, ...(force ? { timeoutMs: 0 } : {}) };
  const stack = driver ?? new ProcessDriver({ root: stateDir, binaries: noBinaries });
  const tenants = new ProcessDriver({
    root: controlPlanesDirectory(stateDir),
    binaries: noBinaries,
    ...confinement,
  });
  await withStep(progress, 'Stopping manager, syncer and gateway', () =>
    stack.stop(stackId, { ...options, components: [managerComponent, syncerComponent, gatewayComponent] }),
  );
  const ids = await tenants.list();
  if (ids.length > 0) {
    const title = `Stopping ${ids.length} tenant control plane${ids.length === 1 ? '' : 's'}`;
    await withStep(progress, title, async (step) => {
      const queue = new PQueue({ concurrency: 8 });
      let stopped = 0;
      const results = await Promise.allSettled(
        ids.map((id) =>
          queue.add(async () => {
            await tenants.stop(id, options);
            stopped++;
            step.update(`${stopped} of ${ids.length}`);
          }),
        ),
      );
      for (const result of results) if (result.status === 'rejected') throw result.reason;
    });
  }
  await withStep(progress, 'Stopping super cluster and datastore', () => stack.stop(stackId, options));
  tenants.removeEmptyGroups();
}
