import type { z } from 'zod';
import { invalidVirtualCluster } from './errors.ts';
import { validateName } from './names.ts';
import { type VirtualCluster, virtualClusterSpecSchema } from './virtual-cluster.ts';

/**
 * Checks a VirtualCluster before it is sent, so that a mistake is answered at once.
 * Throws `InvalidVirtualCluster`, which names every mistake.
 */
export function validateVirtualCluster(object: VirtualCluster): void {
  const problems: string[] = [];
  const name = validateName(object.metadata.name ?? '');
  if (name !== undefined) problems.push(`metadata.name: ${name}`);
  const namespace = object.metadata.namespace;
  const badNamespace = namespace === undefined ? undefined : validateName(namespace);
  if (badNamespace !== undefined) problems.push(`metadata.namespace: ${badNamespace}`);
  const spec = virtualClusterSpecSchema.safeParse(object.spec ?? {});
  if (!spec.success) problems.push(...spec.error.issues.map(describe));
  if (problems.length > 0) throw invalidVirtualCluster(problems);
}

function describe(issue: z.core.$ZodIssue): string {
  const path = ['spec', ...issue.path].join('.');
  // About a key of a map, what is wrong lies one level further in.
  const message = (issue.code === 'invalid_key' && issue.issues[0]?.message) || issue.message;
  return `${path}: ${message.charAt(0).toLowerCase()}${message.slice(1)}`;
}
