import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse } from 'yaml';
import { z } from 'zod';

const words = z.array(z.string().min(1)).min(1);

const ruleSchema = z.strictObject({
  apiGroups: z.array(z.string()).min(1),
  resources: words,
  resourceNames: words.optional(),
  verbs: words,
});

const rightsSchema = z.strictObject({
  cluster: z.array(ruleSchema).min(1),
  namespace: z.array(ruleSchema).min(1),
  /** What the kubernetes driver needs beside the rest, in all namespaces. */
  kubernetesDriver: z.array(ruleSchema).min(1).optional(),
});

/** A rule of RBAC. */
export type PolicyRule = z.infer<typeof ruleSchema>;

/** What one of Skerry's programs may do in the super cluster: `cluster` in all namespaces, `namespace` in Skerry's own. */
export type Rights = z.infer<typeof rightsSchema>;

export const programs = ['manager', 'syncer'] as const;
export type ProgramName = (typeof programs)[number];

/** From the chart, the one place where rights are written down. `directory`: that of the chart. */
export async function loadRights(directory: string, program: ProgramName): Promise<Rights> {
  const text = await readFile(join(directory, 'rights', `${program}.yaml`), 'utf8');
  return rightsSchema.parse(parse(text));
}
