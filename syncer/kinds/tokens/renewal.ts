import { hash } from 'node:crypto';

/** Share of its life after which a token is renewed. */
const lifeShare = 0.8;
/** Kubelet takes up to two minutes to bring a changed Secret into a pod. */
const marginMs = 3 * 60_000;
/** As kubelet does it with tokens that live longer. */
const longestMs = 24 * 3_600_000;
/** So much of its life earlier at most: pods that were made together are not renewed together. */
const spreadShare = 0.05;

/** When to renew a token that a pod gets now. The same for the same pod. */
export function renewalMs(lifetimeSeconds: number, podUid: string, nowMs: number): number {
  const lifeMs = lifetimeSeconds * 1_000;
  const latest = Math.min(lifeShare * lifeMs, lifeMs - marginMs, longestMs);
  const after = latest - fractionOf(podUid) * spreadShare * Math.min(lifeMs, longestMs);
  // No server grants so little; one that did would be asked without end.
  return nowMs + Math.round(Math.max(after, Math.min(lifeMs, longestMs) / 2));
}

/** Also for a time that can have been written by nobody whose clock is right. */
export function isRenewalDue(renewAtMs: number, nowMs: number): boolean {
  return !(renewAtMs > nowMs && renewAtMs <= nowMs + longestMs);
}

/** In [0, 1). */
function fractionOf(text: string): number {
  return Number.parseInt(hash('sha256', text, 'hex').slice(0, 8), 16) / 2 ** 32;
}
