import { readdirSync, readFileSync } from 'node:fs';
import { execa } from 'execa';
import type { KubeObject } from '../../../kube/index.ts';
import type { Cluster } from '../../harness/cluster.ts';
import { pod } from '../../harness/manifests.ts';
import { patiently, poll } from '../../harness/poll.ts';
import { identify, type ProcessIdentity } from '../../harness/processes.ts';
import { Cache, provideProgram } from '../build/programs.ts';
import type { ClusterInfo } from '../cluster/cluster-info.ts';
import { run } from '../machine/machine.ts';

/** The process of a pod's container that runs this program, as this machine sees it. */
export function processOfPod(podUid: string, program: string): ProcessIdentity {
  for (const entry of readdirSync('/proc')) {
    const pid = Number(entry);
    if (!Number.isInteger(pid)) continue;
    if (!read(`/proc/${pid}/cgroup`).includes(podUid)) continue;
    const [command = ''] = read(`/proc/${pid}/cmdline`).split('\0');
    const found = command.split('/').at(-1) === program ? identify(pid) : undefined;
    if (found !== undefined) return found;
  }
  throw new Error(`no process of pod ${podUid} runs ${program}`);
}

/** Memory that only this process has and that no file stands behind, in bytes: program text is shared by all tenants. */
export function privateMemoryOf({ pid }: ProcessIdentity): number {
  const kilobytes = /^Private_Dirty:\s+(\d+) kB/m.exec(read(`/proc/${pid}/smaps_rollup`))?.[1];
  return Number(kilobytes ?? 0) * 1024;
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

/** Has all nodes of a running cluster know an archive's one image by the names that it has, and by this full one. */
export async function importImage(
  { nodes }: ClusterInfo,
  archive: string,
  other?: { from: string; to: string },
): Promise<void> {
  const cache = new Cache({ env: process.env, signal: new AbortController().signal, tell: console.log });
  const ctr = await provideProgram(cache, 'ctr');
  await Promise.all(
    nodes.map(async ({ pid }) => {
      const images = (...args: string[]): Promise<string> =>
        run(ctr, [
          ...['-a', `/proc/${pid}/root/run/containerd/containerd.sock`, '-n', 'k8s.io', 'images'],
          ...args,
        ]);
      await images('import', archive);
      if (other !== undefined) await images('tag', other.from, other.to);
    }),
  );
}

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

/** Pods of tenants may ask for a zone, and each node of the cluster is one. */
export function onNode(name: string): Fields {
  return { nodeSelector: { 'topology.kubernetes.io/zone': name.replace('node-', 'zone-') } };
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
  await cluster.kubectl(...['-n', 'kube-system', 'rollout', 'status', 'deployment/coredns', patiently]);
  const look = ['curl', '-k', '-s', '-m', '20', '-o', '/dev/null', 'https://kubernetes.default.svc/livez'];
  await poll(
    'names to resolve',
    async () => (await cluster.tryKubectl(['-n', namespace, 'exec', name, '--', ...look])).exitCode === 0,
  );
}

export async function untilReady(cluster: Cluster, namespace: string, ...names: string[]): Promise<void> {
  await cluster.kubectl(
    ...['-n', namespace, 'wait', '--for=condition=Ready', patiently],
    ...names.map((name) => `pod/${name}`),
  );
}

/** What one hears whose connection no NetworkPolicy allows. */
export const noRouteToHost = 'no route to host';

/** `refused`: the other side was reached, and nobody listens there. */
export type ConnectResult = 'connected' | 'refused' | typeof noRouteToHost;

/** Whether a pod of agnhost can connect to an address. */
export async function connects(
  cluster: Cluster,
  { namespace, name }: InPod,
  address: string,
  port: number,
): Promise<ConnectResult> {
  const connect = ['/agnhost', 'connect', '--timeout=20s', `${address}:${port}`];
  const result = await cluster.tryKubectl(['-n', namespace, 'exec', name, '--', ...connect]);
  return connectResultOf(result, `${namespace}/${name} to ${address}:${port}`);
}

/** The same from the pod of a process, whatever its image lacks. */
export async function connectsFrom(
  { pid }: ProcessIdentity,
  address: string,
  port: number,
): Promise<ConnectResult> {
  const connect = ['timeout', '20', 'bash', '-c', `exec 3<>/dev/tcp/${address}/${port}`];
  const { exitCode = -1, stderr } = await execa('nsenter', ['-t', String(pid), '-n', ...connect], {
    reject: false,
  });
  return connectResultOf({ exitCode, stderr }, `process ${pid} to ${address}:${port}`);
}

function connectResultOf(
  { exitCode, stderr }: { exitCode: number; stderr: string },
  what: string,
): ConnectResult {
  if (exitCode === 0) return 'connected';
  for (const result of ['refused', noRouteToHost] as const)
    if (stderr.toLowerCase().includes(result)) return result;
  throw new Error(`${what}: ${stderr}`);
}
