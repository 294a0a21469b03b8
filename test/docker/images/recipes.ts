import { existsSync, realpathSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import {
  Binaries,
  type BinaryName,
  defaultCacheDirectory,
  defaultRequests,
} from '../../../vc-manager/binaries/index.ts';
import { imageOf } from '../../../vc-manager/drivers/images.ts';
import { Cache } from '../../real-node/build/programs.ts';
import { busyboxEdition, busyboxLayer } from '../../real-node/images/base-layers.ts';
import { directory, file, type LayerEntry, symlink, tree } from '../../real-node/images/layer.ts';
import type { ImageConfig } from '../../real-node/images/oci-image.ts';
import { run } from '../../real-node/machine/machine.ts';

export interface DockerImage extends ImageConfig {
  tags: readonly string[];
  /** All that decides what is in it, beside the fields of this recipe. */
  inputs: readonly string[];
  layers(): Promise<(readonly LayerEntry[])[]>;
}

/** A second name of all that is made here, in place of upstream's registry: deploy/compose/local.env names it. */
const localRegistry = 'skerry.local';
export const redisImage = 'redis:8-alpine';
/** In place of upstream's image of Node, as the base of ours: it has what the Dockerfile calls, and no more. */
const nodeImage = 'node:26-slim';

const temporary = directory('tmp', 0o1777);
const certificates = 'etc/ssl/certs/ca-certificates.crt';

/** Where upstream's image has the program, and how it starts; what is not named is started by whoever runs it. */
const upstream: Record<BinaryName, { at: string } & ImageConfig> = {
  'kube-apiserver': { at: 'usr/local/bin/kube-apiserver', entrypoint: ['/go-runner'] },
  'kube-controller-manager': { at: 'usr/local/bin/kube-controller-manager', entrypoint: ['/go-runner'] },
  'kube-scheduler': { at: 'usr/local/bin/kube-scheduler', entrypoint: ['/go-runner'] },
  kubectl: { at: 'bin/kubectl', entrypoint: ['/bin/kubectl'] },
  etcd: { at: 'usr/local/bin/etcd', cmd: ['/usr/local/bin/etcd'] },
  kwok: { at: 'usr/local/bin/kwok', entrypoint: ['/usr/local/bin/kwok'] },
};

/** Programs, each under its upstream name: by default every one of control planes and of the local super cluster. */
export function kubernetesImages(cache: Cache, requests = defaultRequests()): DockerImage[] {
  const binaries = new Binaries({ cacheDir: defaultCacheDirectory(cache.env), env: cache.env });
  return requests.map((request) => {
    const { at, ...config } = upstream[request.name];
    return {
      ...config,
      tags: [imageOf(request), imageOf(request, localRegistry)],
      inputs: ['2', request.name, request.version],
      layers: async () => {
        const { path } = await binaries.ensure(request, { signal: cache.signal });
        return [[temporary, ...foldersOf(at), file(at, path)]];
      },
    };
  });
}

/** Debian's Redis under upstream's name. */
export async function redis(): Promise<DockerImage> {
  const programs = ['redis-server', 'redis-cli'].map((name) => `/usr/bin/${name}`);
  return {
    tags: [redisImage, `${localRegistry}/${redisImage}`],
    inputs: ['2', await run('redis-server', ['--version'])],
    cmd: ['redis-server'],
    layers: async () => [
      [
        temporary,
        ...(await sharedLibraries(programs)),
        ...foldersOf('usr/local/bin/redis-server'),
        ...programs.map((path) => file(path.replace('/usr/', 'usr/local/'), realpathSync(path))),
      ],
    ],
  };
}

/** The pinned Node with npm, on a small system with a shell. */
export async function node(cache: Cache): Promise<DockerImage> {
  const program = realpathSync(process.execPath);
  const npm = npmDirectory(cache.env);
  const { version } = JSON.parse(await readFile(join(npm, 'package.json'), 'utf8')) as { version: string };
  const hasCertificates = existsSync(`/${certificates}`);
  const { env, signal, tell } = cache;
  return {
    tags: [nodeImage, `${localRegistry}/${nodeImage}`],
    inputs: ['2', process.version, version, busyboxEdition],
    cmd: ['node'],
    // A registry may be reached by way of an authority that this machine was told to trust.
    env: hasCertificates
      ? { NPM_CONFIG_CAFILE: `/${certificates}`, NODE_EXTRA_CA_CERTS: `/${certificates}` }
      : {},
    layers: async () => [
      await busyboxLayer(new Cache({ env, signal, tell })),
      [
        ...(await sharedLibraries([program])),
        ...(hasCertificates
          ? [...foldersOf(certificates), file(certificates, `/${certificates}`, 0o644)]
          : []),
        ...foldersOf('usr/local/lib/node_modules/npm/x'),
        file('usr/local/bin/node', program),
        symlink('usr/local/bin/npm', '../lib/node_modules/npm/bin/npm-cli.js'),
        ...(await tree(npm)).map((entry) => ({
          ...entry,
          path: `usr/local/lib/node_modules/npm/${entry.path}`,
          ...(entry.type === 'hardlink' ? { target: `usr/local/lib/node_modules/npm/${entry.target}` } : {}),
        })),
      ],
    ],
  };
}

/** Where the `npm` on PATH lies, whose command is a link to `bin/npm-cli.js` in it. */
function npmDirectory(env: Cache['env']): string {
  const command = (env['PATH'] ?? '')
    .split(delimiter)
    .map((directory) => join(directory, 'npm'))
    .find((path) => existsSync(path));
  if (command === undefined) throw new Error('there is no npm on PATH, of which the image of Node is made');
  return dirname(dirname(realpathSync(command)));
}

function foldersOf(path: string): LayerEntry[] {
  const parts = path.split('/').slice(0, -1);
  return [...new Set([...parts.keys()].map((index) => parts.slice(0, index + 1).join('/')))]
    .concat(path.startsWith('usr/local/lib') ? ['usr/local/bin'] : [])
    .map((folder) => directory(folder));
}

/** The libraries of programs of this machine, its loader among them, at the paths where the programs look for them. */
async function sharedLibraries(programs: readonly string[]): Promise<LayerEntry[]> {
  const paths = new Set<string>();
  for (const program of programs) {
    const listed = await run(program, [], { env: { LD_TRACE_LOADED_OBJECTS: '1' } });
    for (const [path] of listed.matchAll(/\/[^ \n]+/g)) paths.add(path);
  }
  return [...paths].sort().flatMap((path) => [...folders(path), file(path.slice(1), path)]);
}

function folders(path: string): LayerEntry[] {
  const parents: LayerEntry[] = [];
  for (let parent = dirname(path); parent !== '/'; parent = dirname(parent)) {
    parents.unshift(directory(parent.slice(1)));
  }
  return parents;
}
