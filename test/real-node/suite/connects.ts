import { execa } from 'execa';
import type { Cluster } from '../../harness/cluster.ts';
import type { ProcessIdentity } from '../../harness/processes.ts';
import type { InPod } from './pods.ts';

/** What one hears whose connection no NetworkPolicy allows. */
export const walledOff = 'no route to host';

/** `refused`: the other side was reached, and nobody listens there. */
export type Heard = 'connected' | 'refused' | typeof walledOff;

/** Whether a pod of agnhost can connect to an address. */
export async function connects(
  cluster: Cluster,
  { namespace, name }: InPod,
  address: string,
  port: number,
): Promise<Heard> {
  const connect = ['/agnhost', 'connect', '--timeout=20s', `${address}:${port}`];
  const result = await cluster.tryKubectl(['-n', namespace, 'exec', name, '--', ...connect]);
  return heardIn(result, `${namespace}/${name} to ${address}:${port}`);
}

/** The same from the pod of a process, whatever its image lacks. */
export async function connectsFrom({ pid }: ProcessIdentity, address: string, port: number): Promise<Heard> {
  const connect = ['timeout', '20', 'bash', '-c', `exec 3<>/dev/tcp/${address}/${port}`];
  const { exitCode = -1, stderr } = await execa('nsenter', ['-t', String(pid), '-n', ...connect], {
    reject: false,
  });
  return heardIn({ exitCode, stderr }, `process ${pid} to ${address}:${port}`);
}

function heardIn({ exitCode, stderr }: { exitCode: number; stderr: string }, what: string): Heard {
  if (exitCode === 0) return 'connected';
  for (const heard of ['refused', walledOff] as const) if (stderr.toLowerCase().includes(heard)) return heard;
  throw new Error(`${what}: ${stderr}`);
}
