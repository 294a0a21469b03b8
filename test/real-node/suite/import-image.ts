import { Cache } from '../build/cache.ts';
import { provideProgram } from '../build/programs.ts';
import type { ClusterInfo } from '../cluster/cluster-info.ts';
import { run } from '../machine/run.ts';

/** Has all nodes of a running cluster know an archive's one image by this full name. */
export async function importImage(
  { nodes }: ClusterInfo,
  archive: string,
  { from, to }: { from: string; to: string },
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
      await images('tag', from, to);
    }),
  );
}
