import { describe, expect, it } from 'vitest';
import { goSuffices, hostPlatform, isCompatibleVersion, knownGoVersion, parseVersion } from './binary.ts';
import { BinaryError } from './errors.ts';
import { checksumFor, releaseDigestFor, releaseFile } from './release.ts';

const linux = { os: 'linux', arch: 'arm64' };
const darwin = { os: 'darwin', arch: 'arm64' };
const hash = 'a1'.repeat(32);

describe('official releases', () => {
  it('are where their projects publish them', () => {
    expect(releaseFile('kube-apiserver', '1.36.3', linux)).toEqual({
      url: 'https://dl.k8s.io/release/v1.36.3/bin/linux/arm64/kube-apiserver',
      file: 'kube-apiserver',
      checksum: {
        url: 'https://dl.k8s.io/release/v1.36.3/bin/linux/arm64/kube-apiserver.sha256',
        format: 'sums',
      },
    });
    expect(releaseFile('etcd', '3.7.3', darwin)).toEqual({
      url: 'https://github.com/etcd-io/etcd/releases/download/v3.7.3/etcd-v3.7.3-darwin-arm64.zip',
      file: 'etcd-v3.7.3-darwin-arm64.zip',
      member: 'etcd-v3.7.3-darwin-arm64/etcd',
      checksum: {
        url: 'https://github.com/etcd-io/etcd/releases/download/v3.7.3/SHA256SUMS',
        format: 'sums',
      },
    });
    expect(releaseFile('kwok', '0.8.0', linux).checksum.url).toBe(
      'https://api.github.com/repos/kubernetes-sigs/kwok/releases/tags/v0.8.0',
    );
  });

  it('have only kubectl of Kubernetes for macOS', () => {
    expect(releaseFile('kubectl', '1.36.3', darwin).url).toContain('/bin/darwin/arm64/kubectl');
    expect(() => releaseFile('kube-scheduler', '1.36.3', darwin)).toThrow(BinaryError);
  });

  it('are found under the same path on a mirror', () => {
    expect(releaseFile('kubectl', '1.36.3', linux, 'http://mirror/k/').url).toBe(
      'http://mirror/k/dl.k8s.io/release/v1.36.3/bin/linux/arm64/kubectl',
    );
  });
});

describe('published checksums', () => {
  it('are read from a lone hash and from lists', () => {
    expect(checksumFor(hash, 'kubectl')).toBe(hash);
    expect(checksumFor(`${hash.toUpperCase()}\n`, 'kubectl')).toBe(hash);
    expect(checksumFor(`${'0'.repeat(64)}  a\n${hash} *release/b\n`, 'b')).toBe(hash);
  });

  it('of another file, or a page of text, are none', () => {
    expect(checksumFor(`${hash}  a\n`, 'b')).toBeUndefined();
    expect(checksumFor(`${hash}\n${hash}\n`, 'b')).toBeUndefined();
    expect(checksumFor('<html>sign in</html>', 'b')).toBeUndefined();
  });

  it("are read from a release's description", () => {
    const description = (digest: unknown) => JSON.stringify({ assets: [{ name: 'kwok', digest }] });
    expect(releaseDigestFor(description(`sha256:${hash}`), 'kwok')).toBe(hash);
    expect(releaseDigestFor(description(null), 'kwok')).toBeUndefined();
    expect(releaseDigestFor(description(`sha256:${hash}`), 'kwokctl')).toBeUndefined();
    expect(releaseDigestFor('null', 'kwok')).toBeUndefined();
    expect(releaseDigestFor('<html>', 'kwok')).toBeUndefined();
  });
});

describe('versions', () => {
  it('are found in what programs print', () => {
    expect(parseVersion('etcd Version: 3.7.3\nGo Version: go1.26.8')?.text).toBe('3.7.3');
    expect(parseVersion('kwok version v0.8.0 go1.26.8 (linux/amd64)')?.text).toBe('0.8.0');
    expect(parseVersion('Kubernetes v1.37.0-beta.0')?.text).toBe('1.37.0-beta.0');
    expect(parseVersion('1.36')).toBeUndefined();
  });

  it('stand in for others of the same minor version, kubectl for the neighbours too', () => {
    expect(isCompatibleVersion('etcd', '3.7.1', '3.7.3')).toBe(true);
    expect(isCompatibleVersion('etcd', '3.6.9', '3.7.3')).toBe(false);
    expect(isCompatibleVersion('kubectl', '1.37.0', '1.36.3')).toBe(true);
    expect(isCompatibleVersion('kubectl', '1.34.0', '1.36.3')).toBe(false);
  });

  it('of Go are compared by number', () => {
    expect(knownGoVersion('kube-apiserver', '1.35.4')).toBe('1.25');
    expect(goSuffices('go1.26.8', '1.26')).toBe(true);
    expect(goSuffices('go1.26', '1.26.1')).toBe(false);
    expect(goSuffices('go1.9.1', '1.26')).toBe(false);
    expect(goSuffices('devel +abc', '1.26')).toBe(true);
  });
});

describe('hostPlatform', () => {
  it("speaks Go's words, and says where Skerry runs when it does not", () => {
    expect(hostPlatform('linux', 'x64')).toEqual({ os: 'linux', arch: 'amd64' });
    expect(hostPlatform('darwin', 'arm64')).toEqual({ os: 'darwin', arch: 'arm64' });
    expect(() => hostPlatform('win32', 'x64')).toThrow(/WSL/);
  });
});
