import type { BinaryName } from './binary.ts';
import { BinaryError } from './errors.ts';
import type { Platform } from './platform.ts';

/** Where an official release keeps one binary, and where it says what its SHA-256 is. */
export interface ReleaseFile {
  url: string;
  /** Last part of the address, as checksum lists name it. */
  file: string;
  /** Path inside the archive; absent when the file is the program itself. */
  member?: string;
  checksum: { url: string; format: 'sums' | 'github' };
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
