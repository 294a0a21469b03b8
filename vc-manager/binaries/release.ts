import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import type { BinaryName, Platform } from './binary.ts';
import { BinaryError } from './errors.ts';

/** SHA-256 of a file's content, lower-case hexadecimal. */
export async function sha256OfFile(path: string, signal?: AbortSignal): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path, { highWaterMark: 1 << 20 }), hash, { ...(signal && { signal }) });
  return hash.digest('hex');
}

/**
 * The SHA-256 that a checksum file names for `file`. Understands a lone hash (`kubectl.sha256`) and lists of
 * `hash  file` (`SHA256SUMS`). Undefined when the text says nothing about the file.
 */
export function checksumFor(text: string, file: string): string | undefined {
  const lines = text.split('\n').map((line) => line.trim());
  for (const line of lines) {
    const match = /^([0-9a-fA-F]{64})\s+[*]?(\S+)$/.exec(line);
    if (match !== null && match[2]?.split('/').at(-1) === file) return match[1]?.toLowerCase();
  }
  const filled = lines.filter((line) => line !== '');
  const only = filled.length === 1 ? filled[0] : undefined;
  return only !== undefined && /^[0-9a-fA-F]{64}$/.test(only) ? only.toLowerCase() : undefined;
}

/**
 * The SHA-256 that a GitHub release names for one of its files: GitHub computes it at upload and publishes it
 * with the release's description.
 */
export function releaseDigestFor(json: string, file: string): string | undefined {
  let release: { assets?: { name?: unknown; digest?: unknown }[] } | null;
  try {
    release = JSON.parse(json) as typeof release;
  } catch {
    return undefined;
  }
  const digest = release?.assets?.find((asset) => asset.name === file)?.digest;
  const match = typeof digest === 'string' ? /^sha256:([0-9a-fA-F]{64})$/.exec(digest) : null;
  return match?.[1]?.toLowerCase();
}

/** Where an official release keeps one binary, and where it says what its SHA-256 is. */
export interface ReleaseFile {
  url: string;
  /** Last part of the address, as checksum lists name it. */
  file: string;
  /** Path inside the archive; absent when the file is the program itself. */
  member?: string;
  checksum: { url: string; format: 'sums' | 'github' };
}

/** Where Kubernetes' release server names the newest patch of a minor version. `mirror`: as for `releaseFile`. */
export function newestPatchUrl(version: string, mirror?: string): string {
  const root = mirror === undefined ? 'https:/' : mirror.replace(/\/+$/, '');
  return `${root}/dl.k8s.io/release/stable-${version.split('.').slice(0, 2).join('.')}.txt`;
}

/**
 * The official file for a binary.
 *
 * `mirror` takes the place of `https:/` in front of every host, so a directory filled by `wget -x` and served
 * over HTTP is a mirror: `<mirror>/dl.k8s.io/release/v1.36.3/bin/linux/amd64/kubectl`.
 *
 * kwok publishes programs without a checksum file; its SHA-256 is taken from the digest that GitHub computed
 * when the file was uploaded.
 * @throws BinaryError NotPublished
 */
export function releaseFile(
  name: BinaryName,
  version: string,
  { os, arch }: Platform,
  mirror?: string,
): ReleaseFile {
  const root = mirror === undefined ? 'https:/' : mirror.replace(/\/+$/, '');
  if (name === 'etcd') {
    const folder = `etcd-v${version}-${os}-${arch}`;
    const file = `${folder}.${os === 'linux' ? 'tar.gz' : 'zip'}`;
    const base = `${root}/github.com/etcd-io/etcd/releases/download/v${version}`;
    return {
      url: `${base}/${file}`,
      file,
      member: `${folder}/etcd`,
      checksum: { url: `${base}/SHA256SUMS`, format: 'sums' },
    };
  }
  if (name === 'kwok') {
    const file = `kwok-${os}-${arch}`;
    return {
      url: `${root}/github.com/kubernetes-sigs/kwok/releases/download/v${version}/${file}`,
      file,
      checksum: {
        url: `${root}/api.github.com/repos/kubernetes-sigs/kwok/releases/tags/v${version}`,
        format: 'github',
      },
    };
  }
  if (os !== 'linux' && name !== 'kubectl') {
    throw new BinaryError('NotPublished', `Kubernetes publishes no ${name} for ${os}`);
  }
  const url = `${root}/dl.k8s.io/release/v${version}/bin/${os}/${arch}/${name}`;
  return { url, file: name, checksum: { url: `${url}.sha256`, format: 'sums' } };
}
