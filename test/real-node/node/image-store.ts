import { createHash } from 'node:crypto';
import { cp, mkdir, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { poll } from '../../harness/poll.ts';
import { type Cache, versionOf } from '../build/programs.ts';
import { run } from '../machine/machine.ts';
import { acceptsConnections, NodeProcess } from './node-process.ts';

const storesKept = 2;

/**
 * A containerd directory with these images imported and unpacked. Made once: a node takes a copy of links, which
 * costs next to nothing, where an import costs seconds.
 */
export function provideImageStore(
  cache: Cache,
  images: readonly string[],
  programs: { containerd: string; ctr: string },
): Promise<string> {
  const names = images.map((image) => basename(image)).sort();
  const key = createHash('sha256').update(JSON.stringify(names)).digest('hex').slice(0, 12);
  const path = cache.path('image-stores', `${versionOf('containerd')}-${key}`);
  return cache.ensure(path, async (work, tell) => {
    const root = join(work, 'root');
    // The path of a socket has 104 bytes at most, which that of the cache may need for itself.
    const sockets = await mkdtemp(join(tmpdir(), 'skerry-'));
    const socket = join(sockets, 'containerd.sock');
    const configuration = join(work, 'containerd.toml');
    await mkdir(root);
    await writeFile(
      configuration,
      `version = 3\nroot = "${root}"\nstate = "${join(work, 'state')}"\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n[grpc]\n  address = "${socket}"\n`,
    );
    const containerd = new NodeProcess({
      name: 'containerd',
      // Mounts of its own: what it mounts while it unpacks goes with it, however it ends.
      command: ['unshare', '--mount', programs.containerd, '-c', configuration],
      logFile: join(work, 'containerd.log'),
      mark: work,
    });
    try {
      await poll('containerd to listen', () => {
        if (containerd.hasEnded) throw new Error(`containerd has ended: ${containerd.lastWords()}`);
        return acceptsConnections(socket);
      });
      for (const image of images) {
        tell(`importing ${basename(image)}`);
        await run(programs.ctr, ['-a', socket, '-n', 'k8s.io', 'images', 'import', image], {
          signal: cache.signal,
        });
      }
    } finally {
      await containerd.kill('SIGTERM');
      await rm(sockets, { recursive: true, force: true });
    }
    await removeOldest(cache.path('image-stores'));
    return root;
  });
}

/** Each is some hundred megabytes: those of earlier images go, the newest and the one of another choice stay. */
async function removeOldest(directory: string): Promise<void> {
  const names = (await readdir(directory)).filter((name) => /-[0-9a-f]{12}$/.test(name));
  const stores = await Promise.all(
    names.map(async (name) => ({
      path: join(directory, name),
      madeAt: (await stat(join(directory, name))).mtimeMs,
    })),
  );
  const old = stores.sort((a, b) => b.madeAt - a.madeAt).slice(storesKept - 1);
  for (const { path } of old) await rm(path, { recursive: true, force: true });
}

/**
 * Gives a node its own copy. Contents and unpacked layers are links, as neither is ever changed in place;
 * databases are, so they are copied.
 */
export async function copyImageStore(store: string, target: string): Promise<void> {
  try {
    await run('cp', ['-al', store, target]);
  } catch (error) {
    // Another file system.
    if (!/cross-device/i.test((error as Error).message)) throw error;
    await rm(target, { recursive: true, force: true });
    await run('cp', ['-a', store, target]);
    return;
  }
  for (const entry of await readdir(store, { recursive: false, withFileTypes: true })) {
    if (!entry.isDirectory()) continue;
    const files = await readdir(join(store, entry.name));
    for (const file of files.filter((name) => name.endsWith('.db'))) {
      const own = join(target, entry.name, file);
      await rm(own);
      await cp(join(store, entry.name, file), own);
    }
  }
}
