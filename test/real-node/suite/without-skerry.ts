import { send } from '../../harness/processes.ts';
import type { World } from '../../harness/world.ts';

const programs = ['skerry-manager', 'skerry-syncer', 'skerry-syncer-custom-resources'];

/**
 * Makes a local stack's super cluster one that has never had Skerry: its manager and syncer are halted, and what they
 * have made there is removed as docs/kubernetes-install.md says, with their roles.
 */
export async function removeSkerry(world: World): Promise<void> {
  for (const program of ['vc-manager', 'vc-syncer']) send(await world.process(program), 'SIGSTOP');
  const { superCluster } = world;
  const remove = (...what: string[]): Promise<string> =>
    superCluster.kubectl('delete', ...what, '--ignore-not-found', '--timeout=110s');
  await Promise.all([
    remove('clusterroles,clusterrolebindings', ...programs),
    remove('namespace', 'skerry-system'),
    remove('servicecidr', 'skerry-tenants'),
    remove(
      'crd',
      ...['virtualclusters', 'virtualclusterpolicies', 'controlplanetemplates'].map(
        (each) => `${each}.skerry.dev`,
      ),
    ),
  ]);
}
