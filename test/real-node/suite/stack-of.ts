import { readFileSync } from 'node:fs';
import { Binaries, defaultCacheDirectory, defaultVersions } from '../../../vc-manager/binaries/index.ts';
import type { StackInfo } from '../../harness/stack.ts';
import type { ClusterInfo } from '../cluster/cluster-info.ts';

/** A cluster of real nodes as the stack that suites know. */
export async function stackOf({ stateDir, superKubeconfigFile }: ClusterInfo): Promise<StackInfo> {
  const binaries = new Binaries({ cacheDir: defaultCacheDirectory(process.env), env: process.env });
  const { signal } = new AbortController();
  const kubectl = await binaries.ensure({ name: 'kubectl', version: defaultVersions.kubernetes }, { signal });
  return { stateDir, superKubeconfig: readFileSync(superKubeconfigFile, 'utf8'), kubectl: kubectl.path };
}
