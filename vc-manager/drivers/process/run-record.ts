import { readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { writeFileAtomicallySync } from './component-files.ts';

const schema = z.object({
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
export type RunRecord = z.infer<typeof schema>;

/** Undefined when there is none or it cannot be understood. */
export async function readRecord(directory: string, component: string): Promise<RunRecord | undefined> {
  try {
    return schema.parse(JSON.parse(await readFile(join(directory, `${component}.json`), 'utf8')));
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
