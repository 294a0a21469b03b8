import { randomInt } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Binaries, defaultCacheDirectory, defaultVersions } from '../../vc-manager/binaries/index.ts';
import { freePort } from '../../vc-manager/os/network.ts';
import { LocalDatastore } from './datastore.ts';
import type { DriverWorld, ServerAddress } from './driver-world.ts';

export interface PlaceOnThisMachine {
  binaries: Binaries;
  /** For a driver; goes with the world. */
  root: string;
  /** All of a world that is the same for each driver whose API servers listen on ports of this machine. */
  world: Omit<DriverWorld, 'makeDriver' | 'crash' | 'traces'>;
}

export async function placeOnThisMachine(): Promise<PlaceOnThisMachine> {
  const directory = await mkdtemp(join(tmpdir(), 'skerry-conformance-'));
  const binaries = new Binaries({
    cacheDir: defaultCacheDirectory(process.env),
    env: process.env,
    offline: true,
  });
  const local = await LocalDatastore.start(directory, binaries);
  return {
    binaries,
    root: join(directory, 'control-planes'),
    world: {
      datastore: local.datastore,
      pki: local.pki,
      locate: addressesOfThisMachine(),
      otherVersion: defaultVersions.kubernetes.replace(/\d+$/, (patch) => String(Number(patch) + 1)),
      usesPortsOfThisMachine: true,
      close: async () => {
        await local.close();
        await rm(directory, { recursive: true });
      },
    },
  };
}

/** Each control plane keeps its own. Chosen at random, for suites that run at the same time. */
function addressesOfThisMachine(): (id: string) => Promise<ServerAddress> {
  const ports = new Map<string, number>();
  const first = randomInt(21_000, 21_900);
  return async (id) => {
    const host = '127.0.0.1';
    const taken = [...ports.values()];
    const port = ports.get(id) ?? (await freePort({ host, taken, range: [first, 21_999] }));
    ports.set(id, port);
    return { bindAddress: host, bindPort: port, host, port };
  };
}
