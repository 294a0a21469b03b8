import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { resources } from '../../kube/index.ts';
import { Cluster } from '../harness/cluster.ts';
import { cliOutput } from '../harness/stack.ts';
import type { ClusterInfo } from '../real-node/cluster/cluster-info.ts';

interface ConformanceTenant {
  kubeconfigFile: string;
  close(): Promise<void>;
}

const name = 'conformance';

/** Conformance asks for privileged pods, their host's directories, and DaemonSets: an operator has to have agreed. */
const allowed = {
  podSecurity: 'privileged',
  daemonSets: 'allow',
  volumeTypes: ['hostPath', 'csi', 'image'],
  tolerations: ['*'],
};

const objects = [
  { apiVersion: 'v1', kind: 'Namespace', metadata: { name } },
  {
    apiVersion: 'skerry.dev/v1alpha1',
    kind: 'VirtualClusterPolicy',
    metadata: { name },
    spec: { namespaces: [name], ...allowed },
  },
  {
    apiVersion: 'skerry.dev/v1alpha1',
    kind: 'VirtualCluster',
    metadata: { namespace: name, name },
    spec: { dns: 'coredns', policy: allowed },
  },
];

/** A tenant that may what conformance needs, with its own DNS. */
export async function createConformanceTenant(
  cluster: ClusterInfo,
  directory: string,
  kubectl: string,
): Promise<ConformanceTenant> {
  const superCluster = new Cluster({
    name: 'super cluster',
    kubeconfig: readFileSync(cluster.superKubeconfigFile, 'utf8'),
    kubeconfigFile: join(directory, 'super.kubeconfig'),
    kubectl,
  });
  try {
    await superCluster.apply(...objects);
    await superCluster.until<true, VirtualCluster>(
      {
        resource: resources.virtualClusters,
        namespace: name,
        name,
        what: 'the tenant to be ready',
      },
      ([vc]) => vc?.status?.phase === 'Ready',
    );
    const cli = (...args: string[]): Promise<string> => cliOutput(cluster.stateDir, ...args, '-n', name);
    const kubeconfigFile = join(directory, 'tenant.kubeconfig');
    writeFileSync(kubeconfigFile, await cli('kubeconfig', name), { mode: 0o600 });
    const tenant = new Cluster({
      name: 'tenant',
      kubeconfig: readFileSync(kubeconfigFile, 'utf8'),
      kubeconfigFile,
      kubectl,
    });
    await tenant.until(
      {
        resource: resources.pods,
        namespace: 'kube-system',
        what: 'the DNS server to be ready',
      },
      (pods) => pods.some((pod) => isReady(pod)),
    );
    await tenant.close();
    return {
      kubeconfigFile,
      close: async () => {
        await cli('delete', name, '--wait', '--yes');
      },
    };
  } finally {
    await superCluster.close();
  }
}

function isReady(pod: object): boolean {
  const { status } = pod as { status?: { conditions?: { type: string; status: string }[] } };
  return status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') === true;
}
