import { join } from 'node:path';
import {
  buildFromModule,
  defaultCacheDirectory,
  defaultVersions,
  hostPlatform,
} from '../../vc-manager/binaries/index.ts';
import { Cache } from '../real-node/build/programs.ts';

/** Path of a program of etcd's, of the version that Skerry has; built from its Go module unless it was built before. */
export async function provideEtcdTool(name: 'etcdctl' | 'etcdutl'): Promise<string> {
  const { env } = process;
  const signal = new AbortController().signal;
  const cache = new Cache({ env, signal, tell: () => undefined });
  const module = `go.etcd.io/etcd/${name}/v3`;
  const recipe = { module, moduleVersion: `v${defaultVersions.etcd}`, package: module, ldflags: '-s -w' };
  return cache.ensure(
    join(defaultCacheDirectory(env), 'tools', `${name}-${defaultVersions.etcd}`),
    (directory) =>
      buildFromModule(name, recipe, {
        ...{ platform: hostPlatform(), directory, home: cache.directory, env, signal, offline: false },
        report: () => undefined,
      }),
  );
}
