import { extname, join } from 'node:path';
import type { ComponentPlan } from '../control-plane/index.ts';
import { type SuperClusterPlanOptions, superClusterKubeconfig } from './super-cluster-plan.ts';

export interface StoragePlanOptions extends Pick<SuperClusterPlanOptions, 'pki' | 'ports' | 'bindAddress'> {
  packageVersion: string | undefined;
}

/** The provisioner of simulated volumes, as a process of its own. */
export function storagePlan(options: StoragePlanOptions): ComponentPlan[] {
  const program = join(import.meta.dirname, `provisioner-main${extname(import.meta.filename)}`);
  return [
    {
      name: 'simulated-storage',
      binary: { command: process.execPath },
      args: [program, '${files}/kubeconfig'],
      // Restarts it when there is a new one: the path of the program stays.
      env: options.packageVersion === undefined ? {} : { SKERRY_VERSION: options.packageVersion },
      files: [
        {
          path: 'kubeconfig',
          content: superClusterKubeconfig(options, 'system:kwok', options.pki.kwok),
          mode: 0o600,
        },
      ],
      ports: [],
      dependsOn: ['kube-apiserver'],
      stopTimeoutMs: 5000,
    },
  ];
}
