import { oldestCompose } from './errors.ts';

/** From what `docker compose version --short` prints; undefined when that is no version. */
export function parseComposeVersion(printed: string): { text: string; suffices: boolean } | undefined {
  const text = printed.trim().replace(/^v/, '');
  const actual = numbersOf(text);
  const needed = numbersOf(oldestCompose);
  if (actual === undefined || needed === undefined) return undefined;
  for (const [i, have] of actual.entries()) {
    const want = needed[i] ?? 0;
    if (have !== want) return { text, suffices: have > want };
  }
  return { text, suffices: true };
}

function numbersOf(version: string): number[] | undefined {
  const match = /^(\d+)\.(\d+)\.(\d+)/.exec(version);
  return match?.slice(1).map(Number);
}
