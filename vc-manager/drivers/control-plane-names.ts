import { readdir } from 'node:fs/promises';

const dnsLabel = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

/** Whether a control plane, or a component of one, can be called so. */
export function isControlPlaneName(name: string): boolean {
  return dnsLabel.test(name);
}

/** The control planes that have a folder here, sorted; none when there is no such directory. */
export async function controlPlanesIn(root: string): Promise<string[]> {
  const entries = await readdir(root, { withFileTypes: true }).catch(() => []);
  return entries
    .filter((entry) => entry.isDirectory() && isControlPlaneName(entry.name))
    .map((entry) => entry.name)
    .sort();
}
