import { createHash } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { hostPlatform } from '../../../vc-manager/binaries/index.ts';
import { file, type LayerEntry, text } from './layer.ts';
import { TarWriter } from './tar-writer.ts';

export interface ImageConfig {
  entrypoint?: readonly string[];
  cmd?: readonly string[];
  env?: Readonly<Record<string, string>>;
  user?: string;
  workingDirectory?: string;
}

interface ImageContent extends ImageConfig {
  /** Full names, registry and tag included. */
  tags: readonly string[];
  /** Lowest first. */
  layers: readonly (readonly LayerEntry[])[];
}

const path = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
const mediaType = (what: string): string => `application/vnd.oci.image.${what}`;

interface Blob {
  digest: string;
  size: number;
}

/**
 * Writes an OCI image layout as one tar, as `ctr images import` takes it: each tag is an entry of the index. An
 * engine's `docker load` reads the list beside it.
 */
export async function writeImage(target: string, image: ImageContent): Promise<void> {
  const { os, arch } = hostPlatform();
  const layers: (Blob & { file: string })[] = [];
  for (const [index, entries] of image.layers.entries()) {
    const layer = `${target}.layer-${index}`;
    const writer = await TarWriter.create(layer);
    for (const entry of entries) await writer.add(entry);
    const { sha256, sizeBytes } = await writer.end();
    layers.push({ file: layer, digest: `sha256:${sha256}`, size: sizeBytes });
  }
  const config = JSON.stringify({
    architecture: arch,
    os,
    created: '1970-01-01T00:00:00Z',
    config: {
      Env: [`PATH=${path}`, ...Object.entries(image.env ?? {}).map(([name, value]) => `${name}=${value}`)],
      WorkingDir: image.workingDirectory ?? '/',
      ...(image.entrypoint && { Entrypoint: image.entrypoint }),
      ...(image.cmd && { Cmd: image.cmd }),
      ...(image.user && { User: image.user }),
    },
    rootfs: { type: 'layers', diff_ids: layers.map(({ digest }) => digest) },
    history: layers.map(() => ({ created: '1970-01-01T00:00:00Z', created_by: 'skerry real-node suite' })),
  });
  const manifest = JSON.stringify({
    schemaVersion: 2,
    mediaType: mediaType('manifest.v1+json'),
    config: { mediaType: mediaType('config.v1+json'), ...blobOf(config) },
    layers: layers.map(({ digest, size }) => ({ mediaType: mediaType('layer.v1.tar'), digest, size })),
  });
  const index = JSON.stringify({
    schemaVersion: 2,
    mediaType: mediaType('index.v1+json'),
    manifests: image.tags.map((tag) => ({
      mediaType: mediaType('manifest.v1+json'),
      ...blobOf(manifest),
      platform: { os, architecture: arch },
      annotations: {
        'io.containerd.image.name': tag,
        'org.opencontainers.image.ref.name': tag.slice(tag.lastIndexOf(':') + 1),
      },
    })),
  });
  const list = JSON.stringify([
    { Config: placeOf(blobOf(config)), RepoTags: image.tags, Layers: layers.map((layer) => placeOf(layer)) },
  ]);
  const writer = await TarWriter.create(target);
  await writer.add(text('manifest.json', list));
  await writer.add(text('oci-layout', JSON.stringify({ imageLayoutVersion: '1.0.0' })));
  await writer.add(text('index.json', index));
  for (const blob of [config, manifest]) await writer.add(text(placeOf(blobOf(blob)), blob));
  const written = new Set<string>();
  for (const layer of layers) {
    if (!written.has(layer.digest)) await writer.add(file(placeOf(layer), layer.file, 0o644));
    written.add(layer.digest);
    await rm(layer.file);
  }
  await writer.end();
}

function blobOf(content: string): Blob {
  const digest = `sha256:${createHash('sha256').update(content).digest('hex')}`;
  return { digest, size: Buffer.byteLength(content) };
}

function placeOf({ digest }: Blob): string {
  return `blobs/${digest.replace(':', '/')}`;
}
