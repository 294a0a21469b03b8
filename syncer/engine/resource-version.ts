/**
 * Whether one resourceVersion comes before another of the same resource. Versions are decimal numbers that
 * grow; Kubernetes 1.35 made comparing them a promise. Of anything else nothing is known: false.
 */
export function isOlder(version: string, than: string): boolean {
  if (!decimal.test(version) || !decimal.test(than)) return false;
  if (version.length !== than.length) return version.length < than.length;
  return version < than;
}

const decimal = /^\d+$/;
