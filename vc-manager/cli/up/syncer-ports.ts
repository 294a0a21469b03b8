import { freePort } from '../../os/network.ts';

const first = 22_000;
const last = 22_999;

/** Two free ports for the syncer, at a random place so that two stacks hardly meet. */
export async function syncerPorts(
  random: () => number = Math.random,
): Promise<{ metrics: number; kubelet: number }> {
  const host = '127.0.0.1';
  const start = first + Math.floor((random() * (last - first)) / 2);
  const metrics = await freePort({ host, range: [start, last] });
  // It listens where tenants reach it, which may be any address of this machine.
  const kubelet = await freePort({ host: '0.0.0.0', range: [start, last], taken: [metrics] });
  return { metrics, kubelet };
}
