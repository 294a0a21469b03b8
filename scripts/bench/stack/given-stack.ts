import { join } from 'node:path';
import { type ConnectionOptions, loadKubeconfig } from '../../../kube/index.ts';
import { type BenchProcess, StackProcesses } from '../measure/process-groups.ts';
import type { Stack } from './stack.ts';

export interface GivenStackOptions {
  stateDir?: string;
  kubeconfig?: string;
  context?: string;
}

/** A stack that somebody else has started and will stop. */
export class GivenStack implements Stack {
  readonly superCluster: ConnectionOptions;
  readonly #processes: StackProcesses | undefined;

  constructor(superCluster: ConnectionOptions, stateDir?: string) {
    this.superCluster = superCluster;
    this.#processes = stateDir === undefined ? undefined : new StackProcesses(stateDir);
  }

  static async open({ stateDir, kubeconfig, context }: GivenStackOptions): Promise<GivenStack> {
    const ofState = stateDir === undefined ? undefined : join(stateDir, 'super-cluster', 'admin.kubeconfig');
    const superCluster = await loadKubeconfig(kubeconfig ?? ofState, context);
    if (superCluster.authorization !== undefined) {
      throw new Error(
        'the load generator is a process of its own and cannot ask a plugin for credentials: give a kubeconfig with a client certificate or a token',
      );
    }
    return new GivenStack(superCluster, stateDir);
  }

  async processes(): Promise<BenchProcess[]> {
    return (await this.#processes?.list()) ?? [];
  }

  async close(): Promise<void> {
    // It was here before, and stays.
  }
}
