import { rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { execa } from 'execa';
import type { Clock } from '../../kube/index.ts';
import { checksumFor, releaseDigestFor, sha256OfFile } from './checksum.ts';
import { download } from './download.ts';
import { BinaryError } from './errors.ts';
import { megabytes, type Report } from './progress.ts';
import type { ReleaseFile } from './release.ts';
import type { ReleaseHttp, ReleaseSession } from './release-http.ts';

export interface ReleaseDownloadOptions {
  http: ReleaseHttp;
  release: ReleaseFile;
  /** Where the unfinished download is kept between runs. */
  partial: string;
  /** Where the program is put once its hash is right. Must not exist; same file system as `partial`. */
  target: string;
  env: Readonly<Record<string, string | undefined>>;
  clock: Clock;
  report: Report;
  signal: AbortSignal;
}

/** Release descriptions on GitHub run to a few hundred kilobytes. */
const checksumSizeLimitBytes = 8_000_000;

/**
 * Puts the officially published program at `target`, after its SHA-256 was found to be the published one.
 * @throws BinaryError NotPublished, Unreachable, HttpStatus, Interrupted, ChecksumMismatch, ArchiveUnreadable
 */
export async function downloadRelease(options: ReleaseDownloadOptions): Promise<void> {
  await options.http.session(async (session) => {
    // The hash first: it is small, and without it the file would be of no use.
    const expected = await publishedChecksum(session, options);
    await downloadVerified(session, options, expected);
  });
  if (options.release.member === undefined) await rename(options.partial, options.target);
  else await unpack(options, options.release.member);
}

async function publishedChecksum(session: ReleaseSession, options: ReleaseDownloadOptions): Promise<string> {
  const { release, signal, report } = options;
  report('downloading', `asking for the SHA-256 of ${release.file}`);
  const { statusCode, body } = await session.get(release.checksum.url, {}, signal);
  if (statusCode !== 200) {
    await body.dump();
    throw new BinaryError(
      'HttpStatus',
      `the server answered ${statusCode} when asked for the checksum (${release.checksum.url})`,
    );
  }
  let text = '';
  try {
    for await (const chunk of body.setEncoding('utf8') as AsyncIterable<string>) {
      text += chunk;
      if (text.length > checksumSizeLimitBytes) break;
    }
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    throw new BinaryError('Interrupted', `the checksum did not arrive: ${(error as Error).message}`, {
      cause: error,
    });
  }
  const read = release.checksum.format === 'sums' ? checksumFor : releaseDigestFor;
  const expected = read(text, release.file);
  if (expected === undefined) {
    throw new BinaryError('NotPublished', `${release.checksum.url} names no SHA-256 for ${release.file}`);
  }
  return expected;
}

async function downloadVerified(
  session: ReleaseSession,
  { release, partial, clock, report, signal }: ReleaseDownloadOptions,
  expected: string,
): Promise<void> {
  for (let round = 1; ; round += 1) {
    let reportedPercent = -1;
    const { resumed } = await download({
      session,
      url: release.url,
      file: partial,
      clock,
      signal,
      onBytes: (received, total) => {
        const percent = total === undefined ? undefined : Math.floor((100 * received) / total);
        const mark = percent ?? Math.floor(received / 1_000_000);
        if (mark === reportedPercent) return;
        reportedPercent = mark;
        report(
          'downloading',
          `${megabytes(received)} of ${total === undefined ? '?' : megabytes(total)} MB`,
          percent,
        );
      },
    });
    report('verifying', 'comparing the SHA-256');
    const actual = await sha256OfFile(partial, signal);
    if (actual === expected) return;
    await rm(partial, { force: true });
    // Pieces from different runs may not belong together; one whole answer that is wrong will stay wrong.
    if (resumed && round === 1) {
      report('note', 'the resumed download did not have the published SHA-256; starting it over');
      continue;
    }
    throw new BinaryError(
      'ChecksumMismatch',
      `what arrived has the SHA-256 ${actual}, published is ${expected}; it was deleted (is a proxy or mirror altering downloads?)`,
    );
  }
}

/** `tar` of macOS reads zip too, so one command serves both kinds of archive. */
async function unpack(
  { partial, target, env, signal }: ReleaseDownloadOptions,
  member: string,
): Promise<void> {
  const result = await execa('tar', ['-xf', partial, '-C', dirname(target), '--strip-components=1', member], {
    env: { ...env },
    extendEnv: false,
    cancelSignal: signal,
    reject: false,
    stdin: 'ignore',
  });
  if (signal.aborted) throw signal.reason;
  if (result.failed) {
    const said = result.exitCode === undefined ? result.originalMessage : result.stderr;
    throw new BinaryError('ArchiveUnreadable', `tar could not unpack ${member} from ${partial}: ${said}`);
  }
  const unpacked = join(dirname(target), member.split('/').at(-1) ?? member);
  if (unpacked !== target) await rename(unpacked, target);
  await rm(partial, { force: true });
}
