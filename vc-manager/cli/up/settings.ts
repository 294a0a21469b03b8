import { CliError } from '../errors.ts';
import { readSettings, type StateSettings, writeSettings } from '../state/state-directory.ts';
import type { UpOptions } from './options.ts';
import { syncerPorts } from './syncer-ports.ts';

/** Which super cluster this state is for. Throws `StateUnusable` when that is another one than asked for. */
export async function chooseSuperCluster({
  stateDir,
  superCluster,
}: UpOptions): Promise<StateSettings['superCluster']> {
  const stored = await readSettings(stateDir);
  if (stored !== undefined && superCluster !== undefined) refuseAnother(stateDir, stored, superCluster);
  return stored?.superCluster ?? superCluster ?? 'local';
}

/** Settings of this state with everything in it that must stay the same from start to start. */
export async function settle(
  stateDir: string,
  superCluster: StateSettings['superCluster'],
): Promise<StateSettings & { ports: NonNullable<StateSettings['ports']> }> {
  const stored = await readSettings(stateDir);
  const settings = { ...(stored ?? { superCluster }), ports: stored?.ports ?? (await syncerPorts()) };
  await writeSettings(stateDir, settings);
  return settings;
}

/** Tenants of one super cluster in the datastore of another would be taken for orphans, or worse. */
function refuseAnother(
  stateDir: string,
  { superCluster: stored }: StateSettings,
  wanted: NonNullable<UpOptions['superCluster']>,
): void {
  if (stored !== 'local' && stored.kubeconfig === wanted.kubeconfig && stored.context === wanted.context)
    return;
  const whose = stored === 'local' ? 'a local super cluster' : `the super cluster of ${stored.kubeconfig}`;
  throw new CliError(
    'StateUnusable',
    `the state in ${stateDir} belongs to ${whose}: give each super cluster a --state-dir of its own`,
  );
}
