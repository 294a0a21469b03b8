import { CodedError } from '../../kube/index.ts';

/**
 * - `InvalidRequest`: unknown name or malformed version
 * - `UnsupportedPlatform`: this operating system or processor is not served
 * - `NotPublished`: no official file for this platform, or one without a published SHA-256
 * - `NoSuchVersion`: there is no such version of Kubernetes, as the release server or the module proxy says
 * - `Unreachable`: no connection, or no answer in time
 * - `HttpStatus`: the server answered with something else than the file
 * - `Interrupted`: the transfer broke off repeatedly; what arrived is kept and resumed next time
 * - `ChecksumMismatch`: what arrived is not what was published
 * - `ArchiveUnreadable`: the archive has the right hash but could not be unpacked here
 * - `GoMissing`, `GoTooOld`, `BuildFailed`: the build from Go modules
 * - `CacheUnusable`: the cache directory cannot be written
 * - `Unavailable`: every source failed; `attempts` says how
 */
export type BinaryErrorCode =
  | 'InvalidRequest'
  | 'UnsupportedPlatform'
  | 'NotPublished'
  | 'NoSuchVersion'
  | 'Unreachable'
  | 'HttpStatus'
  | 'Interrupted'
  | 'ChecksumMismatch'
  | 'ArchiveUnreadable'
  | 'GoMissing'
  | 'GoTooOld'
  | 'BuildFailed'
  | 'CacheUnusable'
  | 'Unavailable';

const retryableCodes: ReadonlySet<BinaryErrorCode> = new Set(['Unreachable', 'Interrupted', 'Unavailable']);

export class BinaryError extends CodedError<BinaryErrorCode> {
  override readonly name: string = 'BinaryError';

  constructor(code: BinaryErrorCode, message: string, options?: ErrorOptions) {
    super(code, message, retryableCodes.has(code), options);
  }
}

/** @param known what the source has of the same minor version, or of all; may be long */
export function noSuchVersion(version: string, source: string, known: readonly string[]): BinaryError {
  const minor = version.split('.').slice(0, 2).join('.');
  const same = known.filter((each) => each.startsWith(`${minor}.`));
  const offer =
    same.length > 0
      ? `Of ${minor} it has ${same.slice(-20).join(', ')}`
      : `The newest that it has is ${known.at(-1)}`;
  return new BinaryError('NoSuchVersion', `there is no Kubernetes ${version}, says ${source}. ${offer}.`);
}

/** One source that was tried in vain. */
export interface BinaryAttempt {
  /** `directory /opt/k8s`, `cache …`, `download from …`, `build from Go modules`. */
  what: string;
  reason: string;
}

export interface UnavailableBinary {
  name: string;
  version: string;
  /** Lowest Go version that can build it, where known. */
  goVersion: string | undefined;
  attempts: readonly BinaryAttempt[];
}

/** Everything that was asked for and could not be had, in one message: each try, why it failed, and what can be done. */
export class BinaryUnavailableError extends BinaryError {
  override readonly name = 'BinaryUnavailableError';
  readonly missing: readonly UnavailableBinary[];

  constructor(missing: readonly UnavailableBinary[], platform: string) {
    super('Unavailable', unavailableMessage(missing, platform));
    this.missing = missing;
  }
}

function unavailableMessage(missing: readonly UnavailableBinary[], platform: string): string {
  // Six binaries mostly fail for the same reasons: those with the same reasons are reported together.
  const groups = new Map<string, string[]>();
  for (const { name, version, attempts } of missing) {
    const tries = attempts
      .map(({ what, reason }) => `  - ${what}: ${reason.replaceAll('\n', '\n      ')}`)
      .join('\n');
    const names = groups.get(tries) ?? [];
    names.push(`${name} ${version}`);
    groups.set(tries, names);
  }
  const parts = [...groups].map(
    ([tries, names]) => `${names.join(', ')} (${platform}) could not be obtained:\n${tries}`,
  );
  const names = missing
    .map(({ name, version }) => `${name} ${version.replace(/\.\d+(-.*)?$/, '')}`)
    .join(', ');
  const goVersion = missing
    .map((binary) => binary.goVersion ?? '1.26')
    .reduce((a, b) => (a.localeCompare(b, 'en', { numeric: true }) > 0 ? a : b));
  parts.push(
    [
      'Any one of these helps:',
      `  - set SKERRY_BINARIES to a directory that holds ${names}`,
      '  - give this machine a way to the release servers: set HTTPS_PROXY, or SKERRY_DOWNLOAD_BASE to a mirror of them',
      `  - install Go ${goVersion} or newer and let Skerry build them (about 7 minutes, once; needs a Go module proxy, see GOPROXY)`,
    ].join('\n'),
  );
  return parts.join('\n');
}
