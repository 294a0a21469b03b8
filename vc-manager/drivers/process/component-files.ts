import { randomUUID } from 'node:crypto';
import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { PlanFile } from '../../control-plane/plan.ts';
import { replaceFile } from '../../os/files.ts';
import { isControlPlaneName } from '../driver.ts';
import { invalidName } from '../errors.ts';

/** Where everything of one control plane lies. Names are checked, so no path leaves the root. */
export class ComponentPaths {
  readonly directory: string;
  /** Holds a record of each process. */
  readonly run: string;
  readonly logs: string;

  constructor(root: string, id: string) {
    if (!isControlPlaneName(id)) throw invalidName('control plane', id);
    this.directory = join(root, id);
    this.run = join(this.directory, 'run');
    this.logs = join(this.directory, 'logs');
  }

  /** Read-only files of a component, `${files}` in its arguments. */
  files(component: string): string {
    return join(this.directory, 'files', checked(component));
  }

  /** What a component keeps, `${data}` in its arguments. */
  data(component: string): string {
    return join(this.directory, 'data', checked(component));
  }

  log(component: string): string {
    return join(this.logs, `${checked(component)}.log`);
  }

  /** The value by which a process is recognised as this component, whatever its record says. */
  mark(component: string): string {
    return `${this.directory}/${component}`;
  }
}

function checked(component: string): string {
  if (!isControlPlaneName(component)) throw invalidName('component', component);
  return component;
}

/**
 * Makes `directory` hold exactly the given files with their modes. What is as it should be is not
 * touched; a file is replaced in one step, so that a reader sees the old one or the new one.
 */
export async function writeFiles(directory: string, files: readonly PlanFile[]): Promise<void> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  for (const file of files) {
    const path = join(directory, file.path);
    if (await isAsWanted(path, file)) continue;
    await replaceFile(path, file.content, file.mode);
  }
  const wanted = new Set(files.map((file) => file.path));
  for (const entry of await readdir(directory, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    const name = path.slice(directory.length + 1);
    if (entry.isFile() && !wanted.has(name)) await rm(path, { force: true });
  }
}

async function isAsWanted(path: string, file: PlanFile): Promise<boolean> {
  try {
    const [content, { mode }] = await Promise.all([readFile(path, 'utf8'), stat(path)]);
    return content === file.content && (mode & 0o777) === file.mode;
  } catch {
    return false;
  }
}

const recordSchema = z.object({
  pid: z.int().positive(),
  startTime: z.string(),
  /** Digest of everything that makes a restart necessary when it changes. */
  argsHash: z.string(),
  startedAt: z.iso.datetime(),
  ports: z.array(z.object({ name: z.string(), port: z.int() })),
  dependsOn: z.array(z.string()),
  stopTimeoutMs: z.number(),
  /** By which its connections are told apart; absent: nothing judges where they lead. */
  group: z.int().positive().optional(),
  /** Set before it is told to stop: its end is no crash, also for another manager. */
  stopping: z.boolean().optional(),
});

/** What a driver knows of a process that an earlier driver may have started: `run/<component>.json`. */
export type RunRecord = z.infer<typeof recordSchema>;

/** Undefined when there is none or it cannot be understood. */
export async function readRecord(directory: string, component: string): Promise<RunRecord | undefined> {
  try {
    return recordSchema.parse(JSON.parse(await readFile(join(directory, `${component}.json`), 'utf8')));
  } catch {
    return undefined;
  }
}

/** Component name to record. */
export async function readRecords(directory: string): Promise<Map<string, RunRecord>> {
  const records = new Map<string, RunRecord>();
  const names = await readdir(directory).catch(() => []);
  for (const name of names.filter((entry) => entry.endsWith('.json')).sort()) {
    const component = name.slice(0, -'.json'.length);
    const record = await readRecord(directory, component);
    if (record !== undefined) records.set(component, record);
  }
  return records;
}

export function writeRecordSync(directory: string, component: string, record: RunRecord): void {
  writeFileAtomicallySync(join(directory, `${component}.json`), `${JSON.stringify(record, null, 2)}\n`);
}

export async function removeRecord(directory: string, component: string): Promise<void> {
  await rm(join(directory, `${component}.json`), { force: true });
}

/** For the one place where nothing may happen between an act and its record. */
function writeFileAtomicallySync(path: string, content: string): void {
  const temporary = `${path}.${randomUUID()}.tmp`;
  try {
    writeFileSync(temporary, content, { mode: 0o600 });
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
}
