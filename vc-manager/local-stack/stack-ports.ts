import { readFile } from 'node:fs/promises';
import { replaceFile } from '../os/files.ts';
import { freePort } from '../os/network.ts';

export const stackPortNames = [
  'super-cluster',
  'super-etcd-client',
  'super-etcd-http',
  'super-etcd-peer',
  'super-etcd-metrics',
  'datastore-client',
  'datastore-http',
  'datastore-peer',
  'datastore-metrics',
] as const;

export type StackPorts = Record<(typeof stackPortNames)[number], number>;

// Below the range from which systems take the ports of outgoing connections, which would come and go.
// Those below are the fixed ones of docker-compose.yml and of tests, which may run beside it.
const firstPort = 20_700;
const lastPort = 20_999;

/**
 * The ports of the local stack: chosen once among those that are free, at a random place so that two
 * stacks hardly meet, then kept in `file`, because kubeconfigs name them. Throws NetworkError
 * `NoFreePort`.
 */
export async function stackPorts(file: string, random: () => number = Math.random): Promise<StackPorts> {
  const stored = await readPorts(file);
  const ports: Partial<StackPorts> = { ...stored };
  const start = firstPort + Math.floor(random() * (lastPort - firstPort));
  for (const name of stackPortNames) ports[name] ??= await freePortFrom(start, Object.values(ports));
  const complete = ports as StackPorts;
  if (Object.keys(stored).length < stackPortNames.length) {
    await replaceFile(file, `${JSON.stringify(complete, null, 2)}\n`);
  }
  return complete;
}

async function readPorts(file: string): Promise<Partial<StackPorts>> {
  try {
    const stored = JSON.parse(await readFile(file, 'utf8')) as Record<string, unknown>;
    return Object.fromEntries(
      stackPortNames.filter((name) => Number.isInteger(stored[name])).map((name) => [name, stored[name]]),
    );
  } catch {
    return {};
  }
}

async function freePortFrom(start: number, taken: readonly number[]): Promise<number> {
  const wanted = { host: '127.0.0.1', taken };
  return freePort({ ...wanted, range: [start, lastPort] }).catch(() =>
    freePort({ ...wanted, range: [firstPort, lastPort] }),
  );
}
