import { createHash } from 'node:crypto';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import {
  Binaries,
  type BinaryName,
  defaultCacheDirectory,
  defaultVersions,
} from '../../../vc-manager/binaries/index.ts';
import { imageOf } from '../../../vc-manager/drivers/images.ts';
import { createAuthority, issue, type KeyPair } from '../../../vc-manager/pki/index.ts';
import { type Cache, editionOf, type ProgramName, provideProgram, versionOf } from '../build/programs.ts';
import { busyboxEdition, busyboxLayer, compile, debianLayer, providePause } from './base-layers.ts';
import { directory, file, type LayerEntry, symlink, text } from './layer.ts';
import { type ImageConfig, writeImage } from './oci-image.ts';

/** What agnhost's port server shows when a test asks it for TLS on localhost. */
async function porterPair(): Promise<KeyPair> {
  const authority = await createAuthority({ commonName: 'agnhost porter' });
  return issue(authority, {
    commonName: 'localhost',
    dnsNames: ['localhost'],
    ipAddresses: ['127.0.0.1'],
    usage: ['server'],
  });
}

interface ImageRecipe extends ImageConfig {
  tags: readonly string[];
  /** All that decides what is in it, beside the fields of this recipe: versions of programs, and of the code here. */
  inputs: readonly string[];
  layers(cache: Cache, work: string): Promise<(readonly LayerEntry[])[]>;
}

const e2e = (name: string): string => `registry.k8s.io/e2e-test-images/${name}`;

const temporary = directory('tmp', 0o1777);

/** An image of one program of ours. */
function ofProgram(
  name: ProgramName,
  tags: readonly string[],
  more: Partial<ImageConfig> & { at?: string } = {},
): ImageRecipe {
  const { at = name, ...config } = more;
  return {
    tags,
    entrypoint: [`/${at}`],
    inputs: [editionOf(name), at],
    layers: async (cache) => [[temporary, file(at, await provideProgram(cache, name))]],
    ...config,
  };
}

/** Of upstream's test of updates: pods tell by a file of which version they are. */
function picture(name: string): ImageRecipe {
  return {
    tags: [e2e(`${name}:1.8`)],
    entrypoint: ['/agnhost'],
    cmd: ['test-webserver'],
    inputs: [busyboxEdition, editionOf('agnhost'), '1'],
    layers: async (cache) => [
      await busyboxLayer(cache),
      [file('agnhost', await provideProgram(cache, 'agnhost'))],
      [text('data.json', `${JSON.stringify({ image: `${name}.jpg` })}\n`)],
    ],
  };
}

async function provideBinary({ env, signal }: Cache, name: BinaryName, version: string): Promise<string> {
  const binaries = new Binaries({ cacheDir: defaultCacheDirectory(env), env });
  return (await binaries.ensure({ name, version }, { signal })).path;
}

/** The patch version that a control plane is changed to in tests: the same program under another tag. */
export const otherPatch = '1.36.4';

/** A part of a tenant's control plane, under the names that upstream gives it and at the place where upstream puts it. */
function ofControlPlane(name: 'kube-apiserver' | 'kube-controller-manager'): ImageRecipe {
  const { kubernetes } = defaultVersions;
  return {
    tags: [kubernetes, otherPatch].map((version) => imageOf({ name, version })),
    inputs: [kubernetes, '1'],
    layers: async (cache) => [
      [
        temporary,
        ...['usr', 'usr/local', 'usr/local/bin'].map((path) => directory(path)),
        file(`usr/local/bin/${name}`, await provideBinary(cache, name, kubernetes)),
      ],
    ],
  };
}

export const imageRecipes = {
  pause: {
    tags: ['registry.k8s.io/pause:3.10', 'registry.k8s.io/pause:3.10.2'],
    entrypoint: ['/pause'],
    user: '65535:65535',
    inputs: ['1'],
    layers: async (cache) => [[file('pause', await providePause(cache))]],
  },
  busybox: {
    tags: [
      ...['latest', '1.36', '1.37'].map((tag) => `docker.io/library/busybox:${tag}`),
      e2e('busybox:1.37.0-1'),
    ],
    cmd: ['sh'],
    inputs: [busyboxEdition],
    layers: async (cache) => [await busyboxLayer(cache)],
  },
  nonroot: {
    tags: [e2e('nonroot:1.5')],
    cmd: ['sh'],
    user: '1234',
    inputs: [busyboxEdition],
    layers: async (cache) => [await busyboxLayer(cache)],
  },
  nonewprivs: {
    tags: [e2e('nonewprivs:1.4')],
    cmd: ['nnp'],
    inputs: [busyboxEdition, '1'],
    layers: async (cache) => [
      await busyboxLayer(cache),
      [file('bin/nnp', await compile(cache, 'nonewprivs', '1'), 0o6755)],
    ],
  },
  nginx: {
    // What upstream's tests ask of it any web server can do that has its files there.
    tags: [e2e('nginx:1.15-4'), e2e('nginx:1.27-0')],
    cmd: ['httpd', '-f', '-p', '80', '-h', '/usr/share/nginx/html'],
    inputs: [busyboxEdition, '1'],
    layers: async (cache) => [
      await busyboxLayer(cache),
      [
        ...['usr/share', 'usr/share/nginx', 'usr/share/nginx/html'].map((path) => directory(path)),
        text('usr/share/nginx/html/index.html', '<html><body><h1>It works!</h1></body></html>\n'),
      ],
    ],
  },
  kitten: picture('kitten'),
  nautilus: picture('nautilus'),
  'sample-apiserver': ofProgram('sample-apiserver', [e2e('sample-apiserver:1.29.2')]),
  etcd: {
    // Of the version that the control planes here have, which upstream's tests do not mind.
    tags: ['registry.k8s.io/etcd:3.6.8-0', imageOf({ name: 'etcd', version: defaultVersions.etcd })],
    inputs: [defaultVersions.etcd],
    layers: async (cache) => [
      [temporary, file('usr/local/bin/etcd', await provideBinary(cache, 'etcd', defaultVersions.etcd))],
    ],
  },
  'kube-apiserver': ofControlPlane('kube-apiserver'),
  'kube-controller-manager': ofControlPlane('kube-controller-manager'),
  coredns: ofProgram(
    'coredns',
    ['v1.12.0', 'v1.14.2', `v${versionOf('coredns')}`].map((tag) => `registry.k8s.io/coredns/coredns:${tag}`),
    { user: '65532:65532' },
  ),
  'local-path-provisioner': ofProgram('local-path-provisioner', [
    `docker.io/rancher/local-path-provisioner:v${versionOf('local-path-provisioner')}`,
  ]),
  agnhost: {
    tags: [e2e('agnhost:2.63.0'), e2e('agnhost:2.55'), e2e('glibc-dns-testing:2.0.0')],
    entrypoint: ['/agnhost'],
    cmd: ['pause'],
    inputs: ['1', editionOf('agnhost'), editionOf('coredns')],
    layers: async (cache, work) => {
      const pair = await porterPair();
      const agnhost = await provideProgram(cache, 'agnhost');
      return [
        await debianLayer(cache, join(work, 'debian'), {
          users: ['user-defined-in-image:x:1000:1000::/home/user-defined-in-image:/bin/sh'],
          groups: ['user-defined-in-image:x:1000:', 'group-defined-in-image:x:50000:user-defined-in-image'],
        }),
        // Servers of upstream's own DNS tests; the same layer as in the image of that name.
        [temporary, file('coredns', await provideProgram(cache, 'coredns'))],
        [
          directory('uploads'),
          file('agnhost', agnhost),
          symlink('agnhost-2', 'agnhost'),
          text('localhost.crt', pair.certPem),
          text('localhost.key', pair.keyPem),
        ],
      ];
    },
  },
} satisfies Record<string, ImageRecipe>;

export type ImageName = keyof typeof imageRecipes;

/** What the suite's own pods and the addons are made of. */
export const suiteImages: readonly ImageName[] = [
  'pause',
  'busybox',
  'coredns',
  'local-path-provisioner',
  'agnhost',
  'etcd',
  'kube-apiserver',
  'kube-controller-manager',
];

/** Paths of the images as OCI archives; those that were made before are taken from the cache. */
export async function provideImages(cache: Cache, names: readonly ImageName[]): Promise<string[]> {
  const files: string[] = [];
  for (const name of names) {
    const recipe: ImageRecipe = imageRecipes[name];
    const path = cache.path('images', `${name}-${keyOf(recipe)}.tar`);
    files.push(
      await cache.ensure(path, async (work) => {
        const target = join(work, `${name}.tar`);
        await writeImage(target, { ...recipe, layers: await recipe.layers(cache, work) });
        await removeEarlier(cache, name);
        return target;
      }),
    );
  }
  return files;
}

/** Images of this name that were made after another recipe: nobody asks for them again. */
async function removeEarlier(cache: Cache, name: ImageName): Promise<void> {
  const pattern = new RegExp(`^${name}-[0-9a-f]{12}\\.tar$`);
  for (const file of await readdir(cache.path('images'))) {
    if (pattern.test(file)) await rm(cache.path('images', file), { force: true });
  }
}

/** Another one as soon as anything in the recipe differs. */
function keyOf({ layers: _, ...rest }: ImageRecipe): string {
  return createHash('sha256').update(JSON.stringify(rest)).digest('hex').slice(0, 12);
}
