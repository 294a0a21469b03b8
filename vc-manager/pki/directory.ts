import { randomBytes } from 'node:crypto';
import { chmod, lstat, mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { unsafeDirectory } from './errors.ts';
import { type EnsuredPki, ensurePkiSet, type PkiData, type PkiSpec } from './pki-set.ts';

const fileName = /^[a-z0-9-]+\.(crt|key|pub|password)$/;

/**
 * `ensurePkiSet` on a directory that only its owner can enter (0700; keys and passwords 0600).
 * Each file is replaced as a whole. A new directory appears complete or not at all, and of two processes that make it
 * at the same time one wins and the other takes what the winner made: there are never two sets of authorities.
 */
export async function ensurePkiDirectory(path: string, spec: PkiSpec, now: Date): Promise<EnsuredPki> {
  const directory = resolve(path);
  await mkdir(dirname(directory), { recursive: true, mode: 0o700 });
  if (!(await hasFiles(directory))) {
    const created = await ensurePkiSet(undefined, spec, now);
    if (await publish(directory, created.data)) return created;
  }
  await restrictToOwner(directory);
  const stored = await readFiles(directory);
  const ensured = await ensurePkiSet(stored, spec, now);
  await writeFiles(directory, ensured.data, stored);
  return ensured;
}

async function hasFiles(directory: string): Promise<boolean> {
  try {
    const status = await lstat(directory);
    if (!status.isDirectory()) throw unsafeDirectory(directory, 'something else has that name');
    return (await readdir(directory)).length > 0;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false;
    throw error;
  }
}

/** Moves a finished directory into place; false when another process was faster. */
async function publish(directory: string, data: PkiData): Promise<boolean> {
  const staged = `${directory}.${randomBytes(6).toString('hex')}.new`;
  await mkdir(staged, { mode: 0o700 });
  try {
    await writeFiles(staged, data, {});
    await rename(staged, directory);
    return true;
  } catch (error) {
    await rm(staged, { recursive: true, force: true });
    const code = codeOf(error);
    if (code === 'ENOTEMPTY' || code === 'EEXIST') return false;
    throw error;
  }
}

async function restrictToOwner(directory: string): Promise<void> {
  try {
    await chmod(directory, 0o700);
  } catch (error) {
    throw codeOf(error) === 'EPERM' ? unsafeDirectory(directory, 'it belongs to another user') : error;
  }
}

async function readFiles(directory: string): Promise<PkiData> {
  const names = (await readdir(directory)).filter((name) => fileName.test(name));
  return Object.fromEntries(
    await Promise.all(
      names.map(async (name) => [name, await readFile(join(directory, name), 'utf8')] as const),
    ),
  );
}

/** Keys go first: a certificate whose key is not there yet would be taken for damage. */
async function writeFiles(directory: string, data: PkiData, stored: PkiData): Promise<void> {
  const names = Object.keys(data).filter((name) => data[name] !== stored[name]);
  names.sort((left, right) => Number(left.endsWith('.crt')) - Number(right.endsWith('.crt')));
  for (const name of names) await replaceFile(join(directory, name), data[name] ?? '');
}

async function replaceFile(path: string, content: string): Promise<void> {
  const staged = `${path}.${randomBytes(6).toString('hex')}.new`;
  const file = await open(staged, 'wx', /\.(key|password)$/.test(path) ? 0o600 : 0o644);
  try {
    await file.writeFile(content);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(staged, path);
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined;
}
