import { BinaryError } from './errors.ts';

/** Operating system and processor by Go's names (GOOS, GOARCH), which releases use in file names. */
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

interface Version {
  major: number;
  minor: number;
  patch: number;
  /** As written, without a leading `v`. */
  text: string;
}

/** The first `x.y.z` with an optional pre-release in the text; undefined when there is none. */
export function parseVersion(text: string): Version | undefined {
  const match = /(?<![\d.])(\d+)\.(\d+)\.(\d+)(?:-[0-9A-Za-z][0-9A-Za-z.-]*)?/.exec(text);
  if (match === null) return undefined;
  return { major: Number(match[1]), minor: Number(match[2]), patch: Number(match[3]), text: match[0] };
}

/** Compares the numbers in two versions as numbers. */
export function isOlderVersion(version: string, other: string): boolean {
  return version.localeCompare(other, 'en', { numeric: true }) < 0;
}

/**
 * Whether a binary of a user may stand in for the wanted version: same minor version, since patches of one
 * minor share flags and stored formats. kubectl may be one minor off, which is Kubernetes' own skew policy.
 */
export function isCompatibleVersion(name: BinaryName, actual: string, wanted: string): boolean {
  const a = parseVersion(actual);
  const w = parseVersion(wanted);
  if (a === undefined || w === undefined || a.major !== w.major) return false;
  return Math.abs(a.minor - w.minor) <= (name === 'kubectl' ? 1 : 0);
}

/** `go1.26.8`, `1.26`, `go1.27rc1` as numbers; undefined for development builds without a number. */
function parseGoVersion(text: string): [number, number, number] | undefined {
  const match = /(\d+)\.(\d+)(?:\.(\d+))?/.exec(text);
  return match === null ? undefined : [Number(match[1]), Number(match[2]), Number(match[3] ?? 0)];
}

/** Whether Go `actual` can build what asks for Go `needed`. What cannot be read is given a chance: go itself will object. */
export function goSuffices(actual: string, needed: string): boolean {
  const a = parseGoVersion(actual);
  const n = parseGoVersion(needed);
  if (a === undefined || n === undefined) return true;
  for (const [i, part] of n.entries()) {
    const have = a[i] ?? 0;
    if (have !== part) return have > part;
  }
  return true;
}

/**
 * The Go version that a build is known to need, so that a toolchain that is too old is refused before anything
 * is fetched. Undefined when only the module itself can tell; its own `go` line decides in the end.
 */
export function knownGoVersion(name: BinaryName, version: string): string | undefined {
  const parsed = parseVersion(version);
  if (parsed === undefined) return undefined;
  const { major, minor } = parsed;
  if (name === 'etcd') return major === 3 && minor === 7 ? '1.26' : undefined;
  if (name === 'kwok') return major === 0 && minor === 8 ? '1.26' : undefined;
  // 1.34 asks for 1.24, 1.35 for 1.25, 1.36 for 1.26.
  return major === 1 && minor >= 34 && minor <= 36 ? `1.${minor - 10}` : undefined;
}

/** The programs that control planes and the local super cluster are made of. */
export type BinaryName =
  | 'kube-apiserver'
  | 'kube-controller-manager'
  | 'kube-scheduler'
  | 'kubectl'
  | 'etcd'
  | 'kwok';

export interface BinaryRequest {
  name: BinaryName;
  /** Full version without a leading `v`: `1.36.3`. */
  version: string;
}

export interface BinaryLocation {
  name: BinaryName;
  /** The version that the file really has. From a user's directory it may differ from the wanted one in its patch number. */
  version: string;
  path: string;
  /** How it was obtained just now; what was downloaded or built earlier is `cache`. */
  source: 'directory' | 'cache' | 'download' | 'build';
}

/** Programs of one family share a version and are published together. */
export type BinaryFamily = 'kubernetes' | 'etcd' | 'kwok';

export const defaultVersions = {
  kubernetes: '1.36.3',
  etcd: '3.7.3',
  kwok: '0.8.0',
} as const satisfies Record<BinaryFamily, string>;

/** In the order in which a stack starts them: each is built when those before it are. No component needs kubectl to start. */
export const binaryNames: readonly BinaryName[] = [
  'etcd',
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
  'kwok',
  'kubectl',
];

export function familyOf(name: BinaryName): BinaryFamily {
  return name === 'etcd' || name === 'kwok' ? name : 'kubernetes';
}

/** One request for every binary, in the versions that this release of Skerry is tested with. */
export function defaultRequests(): BinaryRequest[] {
  return binaryNames.map((name) => ({ name, version: defaultVersions[familyOf(name)] }));
}

/** One request for every binary that a tenant's control plane of this Kubernetes version consists of. */
export function controlPlaneRequests(version: string): BinaryRequest[] {
  return (['kube-apiserver', 'kube-controller-manager'] as const).map((name) => ({ name, version }));
}

/**
 * The request in its one spelling. Names and versions become parts of paths and addresses, so anything
 * that is not a known name or a plain version is refused.
 * @throws BinaryError InvalidRequest
 */
export function normalizeRequest(request: BinaryRequest): BinaryRequest {
  const version = request.version.replace(/^v/, '');
  if (!binaryNames.includes(request.name)) {
    throw new BinaryError(
      'InvalidRequest',
      `${request.name} is no binary that Skerry knows; choose one of ${binaryNames.join(', ')}`,
    );
  }
  if (parseVersion(version)?.text !== version) {
    throw new BinaryError(
      'InvalidRequest',
      `${request.version} is no full version of ${request.name}; write it like ${defaultVersions[familyOf(request.name)]}`,
    );
  }
  return { name: request.name, version };
}

export type BinaryStage = 'waiting' | 'downloading' | 'verifying' | 'building' | 'note' | 'ready' | 'failed';

/** What is happening to one binary, fit for one line that is overwritten by the next. `note` lines are worth keeping. */
export interface BinaryProgress {
  name: BinaryName;
  version: string;
  stage: BinaryStage;
  /** Without name and version: `31 of 105 MB`. */
  message: string;
  /** 0..100, where the end is known. */
  percent?: number | undefined;
  /** Since this binary was asked for. */
  elapsedMs: number;
}

/** Reports one stage; name, version and time are added by `Binaries`. */
export type Report = (stage: BinaryStage, message: string, percent?: number) => void;

export function megabytes(bytes: number): string {
  return bytes < 10_000_000 ? (bytes / 1_000_000).toFixed(1) : String(Math.round(bytes / 1_000_000));
}
