import { isRecord } from '../../kube/index.ts';

/**
 * Of one object, as `shapeProblems` has it for each list of a pod. Empty rules take twenty times their JSON in the memory of
 * every replica, and of whatever acts on them.
 */
export const mostEntries = 10_000;

/** Whether lists and labels in a value have more than this many entries; looks at no more than that needs. */
export function hasMoreEntries(value: unknown, most: number): boolean {
  let left = most;
  const count = (part: unknown): void => {
    if (Array.isArray(part)) {
      left -= part.length;
      for (let index = 0; index < part.length && left >= 0; index++) count(part[index]);
      return;
    }
    if (!isRecord(part)) return;
    for (const [key, inner] of Object.entries(part)) {
      if (key === 'matchLabels' && isRecord(inner)) left -= Object.keys(inner).length;
      else if (left >= 0) count(inner);
    }
  };
  count(value);
  return left < 0;
}
