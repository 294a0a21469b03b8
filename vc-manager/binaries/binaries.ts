import PQueue from 'p-queue';
import { type Clock, systemClock } from '../../kube/index.ts';
import { withFileLock } from '../os/file-lock.ts';
import {
  type BinaryLocation,
  type BinaryName,
  type BinaryProgress,
  type BinaryRequest,
  binaryNames,
  defaultRequests,
  defaultVersions,
  familyOf,
  hostPlatform,
  isOlderVersion,
  knownGoVersion,
  normalizeRequest,
  type Platform,
  type Report,
} from './binary.ts';
import { BinaryCache } from './binary-cache.ts';
import { type BinaryAttempt, BinaryError, BinaryUnavailableError, noSuchVersion } from './errors.ts';
import { goBuild, otherVersions } from './go-build.ts';
import { type LocalResult, searchLocally, UserDirectories } from './local-search.ts';
import { newestPatchUrl, releaseFile } from './release.ts';
import { downloadRelease, newestPatch, ReleaseHttp } from './release-download.ts';

export interface BinariesOptions {
  /** Searched before those that the environment names. */
  userDirectories?: readonly string[];
  /** Skerry's cache directory; binaries go into `binaries/` below it. */
  cacheDir: string;
  /** Read: SKERRY_BINARIES, KUBEBUILDER_ASSETS, SKERRY_DOWNLOAD_BASE, proxy settings, PATH, and whatever go reads. */
  env: Readonly<Record<string, string | undefined>>;
  /** A mirror of the release servers (see `releaseFile`); takes precedence over SKERRY_DOWNLOAD_BASE. */
  downloadBase?: (name: BinaryName) => string;
  /** Use no network: no downloads, and builds only from modules that Go already has. */
  offline?: boolean;
  onProgress?: (progress: BinaryProgress) => void;
  platform?: Platform;
  clock?: Clock;
  connectTimeoutMs?: number;
  idleTimeoutMs?: number;
}

interface EnsureBinaryOptions {
  signal: AbortSignal;
  /** Default: that of the constructor. */
  onProgress?: BinariesOptions['onProgress'];
}

/** One line of `vc-manager binaries`. */
export interface BinaryListing extends Pick<LocalResult, 'found' | 'notes'> {
  name: BinaryName;
  /** Wanted; what was found may differ in its patch number. */
  version: string;
}

/**
 * Finds the programs that control planes are made of: in the user's directories, in the cache, from the official
 * release, or by building them. One object is one run: it remembers which servers gave no answer.
 */
export class Binaries {
  readonly #options: BinariesOptions;
  readonly #platform: Platform;
  readonly #clock: Clock;
  readonly #directories: UserDirectories;
  readonly #cache: BinaryCache;
  readonly #http: ReleaseHttp;
  readonly #downloads = new PQueue({ concurrency: 3 });
  /** One at a time: a build keeps all processors busy, and the next one reuses what it compiled. */
  readonly #builds = new PQueue({ concurrency: 1 });
  readonly #compiled = new Set<string>();

  constructor(options: BinariesOptions) {
    const { userDirectories = [], cacheDir, env, platform = hostPlatform(), clock = systemClock } = options;
    this.#options = options;
    this.#platform = platform;
    this.#clock = clock;
    this.#directories = new UserDirectories(userDirectories, env);
    this.#cache = new BinaryCache(cacheDir, platform);
    this.#http = new ReleaseHttp(options);
  }

  /** What is on this machine and fit to run; fetches nothing. */
  async find(request: BinaryRequest): Promise<BinaryLocation | undefined> {
    const { found } = await this.#look(normalizeRequest(request));
    if (found === undefined) return undefined;
    const { sizeBytes: _, ...location } = found;
    return location;
  }

  /** @throws BinaryUnavailableError when no source has it; BinaryError NoSuchVersion, CacheUnusable, InvalidRequest; the signal's reason */
  async ensure(
    request: BinaryRequest,
    { signal, onProgress = this.#options.onProgress }: EnsureBinaryOptions,
  ): Promise<BinaryLocation> {
    const wanted = normalizeRequest(request);
    const report = this.#reporter(wanted, onProgress);
    signal.throwIfAborted();
    const { found, attempts, notes } = await this.#look(wanted);
    if (found !== undefined) {
      const { sizeBytes: _, ...location } = found;
      return location;
    }
    for (const note of notes) report('note', note);
    const entry = await this.#cache.prepare(wanted);
    const lock = {
      path: entry.lock,
      clock: this.#clock,
      signal,
      onWait: (pid: number) => {
        hasWaited = true;
        report('waiting', `process ${pid} is fetching it`);
      },
    };
    let hasWaited = false;
    return withFileLock(lock, async (): Promise<BinaryLocation> => {
      // The process that held the lock before may have fetched it.
      if ((await this.#cache.check(wanted)).state === 'sound') {
        if (hasWaited) report('ready', 'fetched by another process');
        return { ...wanted, path: entry.path, source: 'cache' };
      }
      const source = await this.#fetch(wanted, attempts, report, signal);
      report('ready', source === 'build' ? 'built' : 'downloaded');
      return { ...wanted, path: entry.path, source };
    }).catch((error: unknown) => {
      report('failed', signal.aborted ? 'interrupted' : 'failed');
      throw error;
    });
  }

  /**
   * All of them, in the order of the requests; works on several at once and goes on after a failure, so that the
   * next run finds what could be had.
   * @throws BinaryUnavailableError that names everything that is missing
   */
  ensureAll(
    requests: readonly BinaryRequest[],
    { signal }: { signal: AbortSignal },
  ): Promise<BinaryLocation[]> {
    return this.all(
      requests.map((request) => this.ensure(request, { signal })),
      { signal },
    );
  }

  /** As `ensureAll`, of what has been asked for. */
  async all(
    fetching: readonly Promise<BinaryLocation>[],
    { signal }: { signal: AbortSignal },
  ): Promise<BinaryLocation[]> {
    const results = await Promise.allSettled(fetching);
    signal.throwIfAborted();
    const errors = results
      .filter((result) => result.status === 'rejected')
      .map((result) => result.reason as unknown);
    const other = errors.find((error) => !(error instanceof BinaryUnavailableError));
    if (other !== undefined) throw other;
    const missing = errors.flatMap((error) => (error instanceof BinaryUnavailableError ? error.missing : []));
    if (missing.length > 0) throw new BinaryUnavailableError(missing, this.#platformName());
    return results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
  }

  /** What there is of the given binaries, by default all that Skerry uses. Fetches nothing. */
  async list(requests: readonly BinaryRequest[] = defaultRequests()): Promise<BinaryListing[]> {
    return Promise.all(
      requests.map(normalizeRequest).map(async (wanted) => {
        const { found, notes } = await this.#look(wanted);
        return { ...wanted, found, notes };
      }),
    );
  }

  #look(wanted: BinaryRequest): Promise<LocalResult> {
    return searchLocally(wanted, this.#directories, this.#cache);
  }

  async #fetch(
    wanted: BinaryRequest,
    attempts: BinaryAttempt[],
    report: Report,
    signal: AbortSignal,
  ): Promise<'download' | 'build'> {
    const sources = [
      { source: 'download', queue: this.#downloads, fetch: this.#download },
      { source: 'build', queue: this.#builds, fetch: this.#build },
    ] as const;
    for (const { source, queue, fetch } of sources) {
      const attempt = { what: source === 'download' ? 'download' : 'build from Go modules', reason: '' };
      let running: Promise<void> | undefined;
      try {
        await queue.add(
          () => {
            running = fetch.call(this, wanted, attempt, report, signal);
            return running;
          },
          { signal, priority: -binaryNames.indexOf(wanted.name) },
        );
        return source;
      } catch (error) {
        // The queue lets go at once when aborted; processes and files are gone when the work itself has ended.
        await running?.catch(() => undefined);
        signal.throwIfAborted();
        if (error instanceof BinaryError && error.code === 'CacheUnusable') throw error;
        attempt.reason = (error as Error).message;
        attempts.push(attempt);
        if (source !== 'download') continue;
        await this.#refuseUnknown(wanted, error, signal);
        report('note', `${attempt.what}: ${attempt.reason}; trying to build it instead`);
      }
    }
    const missing = { ...wanted, goVersion: knownGoVersion(wanted.name, wanted.version), attempts };
    throw new BinaryUnavailableError([missing], this.#platformName());
  }

  async #download(
    wanted: BinaryRequest,
    attempt: BinaryAttempt,
    report: Report,
    signal: AbortSignal,
  ): Promise<void> {
    const { env, offline } = this.#options;
    if (offline) throw new BinaryError('Unreachable', 'not tried, offline was asked for');
    const release = releaseFile(wanted.name, wanted.version, this.#platform, this.#mirror(wanted.name));
    attempt.what = `download from ${URL.parse(release.url)?.origin ?? release.url}`;
    const { path } = await this.#cache.prepare(wanted);
    await this.#cache.withTemporaryDirectory(wanted.name, async (directory) => {
      const target = `${directory}/${wanted.name}`;
      const partial = `${path}.partial`;
      await downloadRelease({
        http: this.#http,
        release,
        partial,
        target,
        env,
        clock: this.#clock,
        report,
        signal,
      });
      await this.#cache.install(wanted, target);
    });
  }

  /**
   * Throws `NoSuchVersion` where the release server or the module proxy says so: other builds are not waited for, and nothing
   * is built. `error`: why it could not be downloaded.
   */
  async #refuseUnknown(wanted: BinaryRequest, error: unknown, signal: AbortSignal): Promise<void> {
    const { name, version } = wanted;
    const { cacheDir, env, offline } = this.#options;
    if (offline || familyOf(name) !== 'kubernetes' || version === defaultVersions.kubernetes) return;
    if (error instanceof BinaryError && error.code === 'HttpStatus') {
      const url = newestPatchUrl(version, this.#mirror(name));
      const newest = await newestPatch(this.#http, url, signal);
      if (newest !== undefined && isOlderVersion(newest, version))
        throw noSuchVersion(version, URL.parse(url)?.host ?? url, [newest]);
    }
    await this.#cache.withTemporaryDirectory(name, async (directory) => {
      const workshop = { platform: this.#platform, directory, home: cacheDir, env, offline: false };
      const known = await otherVersions(wanted, { ...workshop, report: () => undefined, signal });
      if (known !== undefined) throw noSuchVersion(version, 'the Go module proxy', known);
    });
  }

  #mirror(name: BinaryName): string | undefined {
    const { env, downloadBase } = this.#options;
    return downloadBase?.(name) ?? (env['SKERRY_DOWNLOAD_BASE'] || undefined);
  }

  async #build(wanted: BinaryRequest, _: BinaryAttempt, report: Report, signal: AbortSignal): Promise<void> {
    const { cacheDir, env, offline = false } = this.#options;
    await this.#cache.withTemporaryDirectory(wanted.name, async (directory) => {
      const platform = this.#platform;
      const program = await goBuild({
        request: wanted,
        platform,
        directory,
        home: cacheDir,
        env,
        offline,
        report,
        signal,
        compiled: this.#compiled,
      });
      await this.#cache.install(wanted, program);
    });
  }

  #reporter({ name, version }: BinaryRequest, onProgress: BinariesOptions['onProgress']): Report {
    const since = this.#clock.monotonic();
    return (stage, message, percent) => {
      const elapsedMs = this.#clock.monotonic() - since;
      onProgress?.({ name, version, stage, message, percent, elapsedMs });
    };
  }

  #platformName(): string {
    return `${this.#platform.os}/${this.#platform.arch}`;
  }
}
