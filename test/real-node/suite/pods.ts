import type { KubeObject } from '../../../kube/index.ts';
import type { Cluster } from '../../harness/cluster.ts';
import { pod } from '../../harness/manifests.ts';
import { poll } from '../../harness/poll.ts';

export const images = {
  busybox: 'docker.io/library/busybox:1.36',
  /** Debian's tools, and a program that plays servers of all kinds. */
  agnhost: 'registry.k8s.io/e2e-test-images/agnhost:2.63.0',
} as const;

type Fields = Record<string, unknown>;

/** A container that runs a shell script; with tools. */
export function script(text: string, fields: Fields = {}): Fields {
  return { name: 'main', image: images.agnhost, command: ['sh', '-c', text], ...fields };
}

/** Probe of a container that touches this file when it has said what it has to say: one that runs may not have yet. */
export const hasSaid = {
  exec: { command: ['test', '-e', '/tmp/said'] },
  periodSeconds: 1,
  timeoutSeconds: 10,
};

/** A container that plays one of the servers of agnhost. */
export function server(args: readonly string[], fields: Fields = {}): Fields {
  return { name: 'main', image: images.agnhost, command: ['/agnhost', ...args], ...fields };
}

/** A pod that waits to be told what to do. */
export function idlePod(namespace: string, name: string, spec: Fields = {}): KubeObject {
  return pod(namespace, name, { containers: [server(['pause'])], ...spec });
}

/** A pod with an HTTP server on 8080 that tells its name at /hostname. */
export function webPod(namespace: string, name: string, spec: Fields = {}): KubeObject {
  return pod(namespace, name, { containers: [web()], ...spec });
}

export function web(fields: Fields = {}): Fields {
  return server(['netexec', '--http-port=8080'], {
    ports: [{ name: 'http', containerPort: 8080 }],
    readinessProbe: { httpGet: { path: '/healthz', port: 8080 }, periodSeconds: 1, timeoutSeconds: 10 },
    ...fields,
  });
}

export interface InPod {
  namespace: string;
  name: string;
}

/** What a command printed in a pod's first container; throws when it fails. */
export async function inPod(
  cluster: Cluster,
  { namespace, name }: InPod,
  ...command: string[]
): Promise<string> {
  return cluster.kubectl('-n', namespace, 'exec', name, '--', ...command);
}

/** The same for a line of shell. */
export function shellInPod(cluster: Cluster, pod: InPod, line: string): Promise<string> {
  return inPod(cluster, pod, 'sh', '-c', line);
}

/** The tenant's DNS runs, and the pod's node knows the way to it: pods start without waiting for either. */
export async function untilNamesResolve(cluster: Cluster, { namespace, name }: InPod): Promise<void> {
  await cluster.kubectl(
    ...['-n', 'kube-system', 'rollout', 'status', 'deployment/coredns', '--timeout=120s'],
  );
  const look = ['curl', '-k', '-s', '-m', '5', '-o', '/dev/null', 'https://kubernetes.default.svc/livez'];
  await poll(
    'names to resolve',
    async () => (await cluster.tryKubectl(['-n', namespace, 'exec', name, '--', ...look])).exitCode === 0,
    { timeoutMs: 60_000 },
  );
}

export async function untilReady(cluster: Cluster, namespace: string, ...names: string[]): Promise<void> {
  await cluster.kubectl(
    ...['-n', namespace, 'wait', '--for=condition=Ready', '--timeout=90s'],
    ...names.map((name) => `pod/${name}`),
  );
}
