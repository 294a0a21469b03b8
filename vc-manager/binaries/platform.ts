import { BinaryError } from './errors.ts';

/** Operating system and processor in Go's words, which is how releases name their files. */
export interface Platform {
  os: string;
  arch: string;
}

const operatingSystems: Readonly<Record<string, string>> = { linux: 'linux', darwin: 'darwin' };
const processors: Readonly<Record<string, string>> = {
  x64: 'amd64',
  arm64: 'arm64',
  ppc64: 'ppc64le',
  s390x: 's390x',
};

/**
 * The platform that this process runs on.
 * @throws BinaryError UnsupportedPlatform
 */
export function hostPlatform(platform: string = process.platform, arch: string = process.arch): Platform {
  const os = operatingSystems[platform];
  const processor = processors[arch];
  if (os === undefined || processor === undefined) {
    throw new BinaryError(
      'UnsupportedPlatform',
      `Skerry runs control planes on Linux and macOS, not on ${platform}/${arch}; on Windows, use it inside WSL`,
    );
  }
  return { os, arch: processor };
}
