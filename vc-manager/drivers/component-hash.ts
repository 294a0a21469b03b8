import { createHash } from 'node:crypto';
import type { ComponentPlan } from '../control-plane/index.ts';

/**
 * Digest of everything that makes a restart necessary when it changes. Where a program was found and where its files
 * lie does not matter: a moved cache or another registry is no reason to interrupt a tenant.
 */
export function componentHash(component: ComponentPlan): string {
  const { binary, args, env, files } = component;
  const content = [
    'name' in binary ? [binary.name, binary.version] : [binary.command],
    args,
    Object.entries(env).sort(([a], [b]) => (a < b ? -1 : 1)),
    files.map(({ path, content, mode }) => [path, content, mode]).sort(),
  ];
  return createHash('sha256').update(JSON.stringify(content)).digest('hex');
}
