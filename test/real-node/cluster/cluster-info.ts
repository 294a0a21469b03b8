import { readFileSync } from 'node:fs';
import { Binaries, defaultCacheDirectory, defaultVersions } from '../../../vc-manager/binaries/index.ts';
import type { StackInfo } from '../../harness/stack.ts';

/** What there is to connect to; in `cluster.json` of the cluster's directory, too. */
export interface ClusterInfo {
  directory: string;
  /** For `vc-manager --state-dir`. */
  stateDir: string;
  superKubeconfigFile: string;
  /** Of this machine, where all API servers listen and which pods can reach. */
  address: string;
  /** Of all nodes. */
  podRange: string;
  nodes: {
    name: string;
    address: string;
    /** Of its first process; `nsenter -t PID -a` looks into the node. */
    pid: number;
  }[];
  /** The process that has the nodes as children. */
  keeper: number;
}

/** A cluster of real nodes as the stack that suites know. */
export async function stackOf({ stateDir, superKubeconfigFile }: ClusterInfo): Promise<StackInfo> {
  const binaries = new Binaries({ cacheDir: defaultCacheDirectory(process.env), env: process.env });
  const { signal } = new AbortController();
  const kubectl = await binaries.ensure({ name: 'kubectl', version: defaultVersions.kubernetes }, { signal });
  return { stateDir, superKubeconfig: readFileSync(superKubeconfigFile, 'utf8'), kubectl: kubectl.path };
}
