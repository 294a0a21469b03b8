import { labelKeys } from '../../api/labels.ts';
import { createIfAbsent, type KubeClient, type KubeObject, resources } from '../../kube/index.ts';

/** Nodes with it are looked after by kwok; others are left alone. */
export const kwokNodeAnnotation = 'kwok.x-k8s.io/node';
export const simulatedStorageClass = 'simulated';
export const simulatedProvisionerName = 'skerry.dev/simulated';
/** The server wants a domain name here. */
export const simulatedCsiDriver = 'simulated.skerry.dev';
/** On a pod of a Job: how long it pretends to work (`5s`), and with which code it exits. */
export const runForAnnotation = 'simulation.skerry.dev/run-for';
export const exitCodeAnnotation = 'simulation.skerry.dev/exit-code';

interface SimulatedNodesOptions {
  count: number;
  /** Where kubelets would be asked; nothing listens there, so that requests fail at once. */
  address: string;
  /** What the nodes say they run. */
  kubernetesVersion: string;
  signal: AbortSignal;
}

/** Each node has a /22 of 10.64.0.0/11: more addresses than pods, and clear of the service ranges. */
const maxNodes = 2048;
const zones = ['simulated-a', 'simulated-b', 'simulated-c'];

/** Makes sure that the nodes sim-0 to sim-<count - 1> exist. Others are left alone. */
export async function createSimulatedNodes(
  client: KubeClient,
  options: SimulatedNodesOptions,
): Promise<void> {
  const { count, signal } = options;
  if (!Number.isInteger(count) || count < 0 || count > maxNodes) {
    throw new RangeError(`${count} simulated nodes cannot be had: choose a number from 0 to ${maxNodes}`);
  }
  const existing = await client.list(resources.nodes, {
    labelSelector: `${labelKeys.simulated}=true`,
    signal,
  });
  const names = new Set(existing.items.map((node) => node.metadata.name));
  for (let index = 0; index < count; index++) {
    const node = simulatedNode(index, options);
    if (names.has(node.metadata.name)) continue;
    await createIfAbsent(client, resources.nodes, node, { signal });
  }
}

export function simulatedNode(
  index: number,
  options: Pick<SimulatedNodesOptions, 'address' | 'kubernetesVersion'>,
): KubeObject {
  const name = `sim-${index}`;
  const architecture = process.arch === 'arm64' ? 'arm64' : 'amd64';
  const size = { cpu: '32', memory: '256Gi', pods: '1000', 'ephemeral-storage': '1Ti' };
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: {
      name,
      labels: {
        [labelKeys.simulated]: 'true',
        'kubernetes.io/hostname': name,
        'kubernetes.io/os': 'linux',
        'kubernetes.io/arch': architecture,
        'node.kubernetes.io/instance-type': 'simulated',
        'topology.kubernetes.io/region': 'simulated',
        'topology.kubernetes.io/zone': zones[index % zones.length] ?? 'simulated-a',
      },
      annotations: { [kwokNodeAnnotation]: 'fake' },
    },
    spec: { podCIDR: podCidr(index), podCIDRs: [podCidr(index)] },
    status: {
      capacity: size,
      allocatable: size,
      addresses: [
        { type: 'InternalIP', address: options.address },
        { type: 'Hostname', address: name },
      ],
      // A port that nothing uses: 0 would mean the usual one, where a real kubelet may listen.
      daemonEndpoints: { kubeletEndpoint: { Port: 1 } },
      nodeInfo: {
        architecture,
        operatingSystem: 'linux',
        osImage: 'simulated (no containers run here)',
        kernelVersion: 'simulated',
        containerRuntimeVersion: 'simulated://0',
        kubeletVersion: `v${options.kubernetesVersion}`,
        kubeProxyVersion: '',
        machineID: name,
        systemUUID: name,
        bootID: name,
      },
    },
  };
}

function podCidr(index: number): string {
  const first = index * 4;
  return `10.${64 + Math.floor(first / 256)}.${first % 256}.0/22`;
}
