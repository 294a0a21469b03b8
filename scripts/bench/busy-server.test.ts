import { describe, expect, it } from 'vitest';
import { ApiError, ConnectionError, type KubeClient, resources } from '../../kube/index.ts';
import { createOrFind, retryWhileBusy } from './busy-server.ts';

const { signal } = new AbortController();
const clock = { sleep: async () => undefined };
const answers = (...each: unknown[]) => {
  const left = each.values();
  return async () => {
    const { value } = left.next();
    if (value instanceof Error) throw value;
    return value;
  };
};

describe('calls of a busy server', () => {
  it('are sent again until it answers', async () => {
    const busy = [new ApiError(500, undefined, 'quota'), new ConnectionError('https://a', 'ETIMEDOUT')];
    expect(await retryWhileBusy(answers(...busy, 'made'), signal, clock)).toBe('made');
  });

  it('end with what no further try changes, and when nobody waits any more', async () => {
    const refused = new ApiError(403, undefined, 'create');
    await expect(retryWhileBusy(answers(refused, 'made'), signal, clock)).rejects.toBe(refused);
    const busy = new ApiError(503, undefined, 'create');
    await expect(retryWhileBusy(answers(busy, 'made'), AbortSignal.abort(), clock)).rejects.toBe(busy);
  });

  it('find what is there already', async () => {
    const object = { metadata: { name: 'a', namespace: 'b' } };
    const there = { metadata: { ...object.metadata, uid: 'of-another' } };
    const exists = new ApiError(409, { reason: 'AlreadyExists' } as never, 'create');
    const client = { create: answers(exists), get: answers(there) } as unknown as KubeClient;
    expect(await createOrFind(client, resources.configMaps, object, signal)).toBe(there);
  });
});
