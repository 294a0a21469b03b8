import { join } from 'node:path';
import type { Cache } from '../build/cache.ts';
import { type ProgramName, provideProgram, versionOf } from '../build/programs.ts';
import { busyboxLayer } from './busybox.ts';
import { debianLayer } from './debian.ts';
import { directory, file, type LayerEntry, symlink, text } from './layer.ts';
import type { ImageConfig } from './oci-image.ts';
import { providePause } from './pause.ts';
import { porterPair } from './porter.ts';

export interface ImageRecipe extends ImageConfig {
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
    inputs: [versionOf(name), at],
    layers: async (cache) => [[temporary, file(at, await provideProgram(cache, name))]],
    ...config,
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
    inputs: ['1'],
    layers: async () => [await busyboxLayer()],
  },
  nonroot: {
    tags: [e2e('nonroot:1.5')],
    cmd: ['sh'],
    user: '1234',
    inputs: ['1'],
    layers: async () => [await busyboxLayer()],
  },
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
    inputs: ['1', versionOf('agnhost'), versionOf('coredns')],
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
];
