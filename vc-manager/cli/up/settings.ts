import { CliError } from '../errors.ts';
import { readSettings, type StateSettings, writeSettings } from '../state/state-directory.ts';
import type { UpOptions } from './options.ts';
import { syncerPorts } from './syncer-ports.ts';

/** Settings of this state with everything in it that must stay the same from start to start. */
export async function settle(
  options: UpOptions,
): Promise<StateSettings & { ports: NonNullable<StateSettings['ports']> }> {
  const { stateDir, superCluster } = options;
  const stored = await readSettings(stateDir);
  if (stored !== undefined && superCluster !== undefined) refuseAnother(stateDir, stored, superCluster);
  const settings = {
    ...(stored ?? { superCluster: superCluster ?? ('local' as const) }),
    ports: stored?.ports ?? (await syncerPorts()),
  };
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
