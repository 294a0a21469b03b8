import { readFile } from 'node:fs/promises';

export interface OpenFileLimits {
  /** What a process may have open at once. Node.js raises its own, when it starts, to the hard one. */
  soft: number;
  /** Which only the system's administrator raises. */
  hard: number;
}

/** Of files and sockets together, of this process and those that it starts; undefined where the system does not say. */
export async function openFileLimits(): Promise<OpenFileLimits | undefined> {
  const text = await readFile('/proc/self/limits', 'utf8').catch(() => '');
  const [, soft, hard] = /^Max open files\s+(\d+|unlimited)\s+(\d+|unlimited)/m.exec(text) ?? [];
  if (soft === undefined || hard === undefined) return undefined;
  return { soft: numberOf(soft), hard: numberOf(hard) };
}

function numberOf(limit: string): number {
  return limit === 'unlimited' ? Number.POSITIVE_INFINITY : Number(limit);
}
