import { randomUUID } from 'node:crypto';
import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
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

/** For the one place where nothing may happen between an act and its record. */
export function writeFileAtomicallySync(path: string, content: string): void {
  const temporary = `${path}.${randomUUID()}.tmp`;
  try {
    writeFileSync(temporary, content, { mode: 0o600 });
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
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
