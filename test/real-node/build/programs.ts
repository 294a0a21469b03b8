import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { systemClock } from '../../../kube/index.ts';
import {
  type BuildRecipe,
  buildFromModule,
  defaultCacheDirectory,
  defaultVersions,
  hostPlatform,
  kubernetesStamps,
} from '../../../vc-manager/binaries/index.ts';
import { withFileLock } from '../../../vc-manager/os/file-lock.ts';

/** What is told while something is made: one line at a time. */
export type Tell = (line: string) => void;

interface CacheOptions {
  env: Readonly<Record<string, string | undefined>>;
  signal: AbortSignal;
  tell: Tell;
  /** Its folder among those of Skerry: `real-node` unless said otherwise. */
  room?: string;
}

/** Programs, images and image stores that were made once, outside the repository. */
export class Cache {
  readonly directory: string;
  readonly env: CacheOptions['env'];
  readonly signal: AbortSignal;
  readonly tell: Tell;

  constructor({ env, signal, tell, room = 'real-node' }: CacheOptions) {
    this.directory = join(defaultCacheDirectory(env), room);
    this.env = env;
    this.signal = signal;
    this.tell = tell;
  }

  path(...parts: string[]): string {
    return join(this.directory, ...parts);
  }

  /**
   * The file or directory at `path`; where there is none, `make` is called with an empty directory, and what it
   * names is moved there. A half-made one is never seen, and no two processes make the same.
   */
  async ensure(path: string, make: (directory: string, tell: Tell) => Promise<string>): Promise<string> {
    if (await exists(path)) return path;
    await mkdir(dirname(path), { recursive: true });
    const name = basename(path);
    const lock = {
      path: `${path}.lock`,
      clock: systemClock,
      signal: this.signal,
      onWait: (pid: number) => this.tell(`${name}: process ${pid} is making it`),
    };
    return withFileLock(lock, async () => {
      if (await exists(path)) return path;
      const directory = await mkdtemp(`${path}.making-`);
      const since = performance.now();
      try {
        const made = await make(directory, (line) => this.tell(`${name}: ${line}`));
        await rename(made, path);
      } finally {
        await rm(directory, { recursive: true, force: true });
      }
      this.tell(`${name}: made in ${Math.round((performance.now() - since) / 1000)} s`);
      return path;
    });
  }
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}

const { kubernetes } = defaultVersions;
const stripped = '-s -w';

function ofKubernetes(path: string, more: Partial<BuildRecipe> = {}): BuildRecipe {
  return {
    module: 'k8s.io/kubernetes',
    moduleVersion: `v${kubernetes}`,
    package: path,
    ldflags: `${stripped} ${kubernetesStamps(kubernetes)}`,
    ...more,
  };
}

function ofModule(module: string, moduleVersion: string, folder = ''): BuildRecipe {
  return { module, moduleVersion, package: `${module}${folder}`, ldflags: stripped };
}

/** With all its plugins, CoreDNS compiles the clients of three clouds as well, which takes minutes. */
const dnsPlugins = [
  ...['cache', 'errors', 'forward', 'health', 'hosts', 'kubernetes', 'loadbalance', 'log', 'loop'],
  ...['metrics', 'ready', 'reload', 'rewrite', 'template', 'whoami'],
];
const coreDns = 'github.com/coredns/coredns';
const coreDnsSource = `package main

import (
\t"${coreDns}/coremain"
${dnsPlugins.map((plugin) => `\t_ "${coreDns}/plugin/${plugin}"`).join('\n')}
)

func main() { coremain.Run() }
`;

const containerd = ['github.com/containerd/containerd/v2', 'v2.2.1'] as const;

/** What nodes, their images and the conformance run need beyond the programs of control planes. */
const recipes = {
  kubelet: ofKubernetes('k8s.io/kubernetes/cmd/kubelet'),
  'kube-proxy': ofKubernetes('k8s.io/kubernetes/cmd/kube-proxy'),
  containerd: ofModule(...containerd, '/cmd/containerd'),
  'containerd-shim-runc-v2': ofModule(...containerd, '/cmd/containerd-shim-runc-v2'),
  ctr: ofModule(...containerd, '/cmd/ctr'),
  agnhost: ofKubernetes('k8s.io/kubernetes/test/images/agnhost'),
  coredns: { ...ofModule(coreDns, 'v1.15.0'), source: coreDnsSource },
  'local-path-provisioner': ofModule('github.com/rancher/local-path-provisioner', 'v0.0.30'),
  'sample-apiserver': ofKubernetes('k8s.io/sample-apiserver'),
  ginkgo: ofModule('github.com/onsi/ginkgo/v2', 'v2.28.1', '/ginkgo'),
  'e2e.test': ofKubernetes('k8s.io/kubernetes/test/e2e', { isTest: true }),
} satisfies Record<string, BuildRecipe>;

export type ProgramName = keyof typeof recipes;

/** `1.36.3`, without a leading `v`. */
export function versionOf(name: ProgramName): string {
  return recipes[name].moduleVersion.replace(/^v/, '');
}

/** Path of the program; built from its Go module unless it was built before. */
export function provideProgram(cache: Cache, name: ProgramName): Promise<string> {
  return built(cache, name, { edition: editionOf(name), recipe: recipes[name] });
}

/** Path of a program by its recipe; of one edition there is one build. */
export function built(
  cache: Cache,
  name: string,
  { edition, recipe }: { edition: string; recipe: BuildRecipe },
): Promise<string> {
  return cache.ensure(cache.path('programs', edition, name), async (directory, tell) => {
    let last = 0;
    return buildFromModule(name, recipe, {
      platform: hostPlatform(),
      directory,
      home: cache.directory,
      env: cache.env,
      offline: false,
      signal: cache.signal,
      report: (_, message) => {
        // A compiler prints a line for each of some thousand packages.
        if (performance.now() - last < 2_000) return;
        last = performance.now();
        tell(message);
      },
    });
  });
}

/** One after the other: each build keeps all processors busy, and the next reuses what it compiled. */
export async function providePrograms<N extends ProgramName>(
  cache: Cache,
  names: readonly N[],
): Promise<Record<N, string>> {
  const paths: Partial<Record<N, string>> = {};
  for (const name of names) paths[name] = await provideProgram(cache, name);
  return paths as Record<N, string>;
}

/** What is built from another source under the same version is another program. */
export function editionOf(name: ProgramName): string {
  const { source }: BuildRecipe = recipes[name];
  if (source === undefined) return versionOf(name);
  return `${versionOf(name)}-${createHash('sha256').update(source).digest('hex').slice(0, 8)}`;
}
