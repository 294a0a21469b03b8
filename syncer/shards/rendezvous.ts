import { hash } from 'node:crypto';

/**
 * Which of the replicas should have a bucket: the one whose hash with it is highest. When one joins it takes what
 * it wins, when one leaves the others take what it had, and nothing else moves.
 */
export function placeOf(bucket: number, replicas: Iterable<string>): string | undefined {
  let best: { replica: string; score: string } | undefined;
  for (const replica of replicas) {
    const score = hash('sha256', `${bucket}/${replica}`, 'hex');
    if (best === undefined || score > best.score) best = { replica, score };
  }
  return best?.replica;
}
