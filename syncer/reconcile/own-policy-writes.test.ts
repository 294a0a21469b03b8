import { describe, expect, it } from 'vitest';
import type { KubeObject } from '../../kube/index.ts';
import { OwnPolicyWrites } from './own-policy-writes.ts';

const policy: KubeObject = {
  metadata: { namespace: 'blue-shop', name: 'wall', uid: 'p', resourceVersion: '5' },
};
const labels = { app: 'web' };
const made: KubeObject = {
  metadata: { namespace: 'blue-shop', name: 'web', labels },
  spec: { containers: [] },
};
const answer: KubeObject = {
  ...made,
  metadata: {
    ...made.metadata,
    uid: 'w',
    resourceVersion: '7',
    annotations: { long: 'x' },
    managedFields: [],
  },
};

describe('writes of labels that rely on a policy', () => {
  it('are remembered by name and labels alone, before the server has answered and after', async () => {
    const writes = new OwnPolicyWrites(() => 0);
    const sent = Promise.withResolvers<KubeObject>();
    const written = writes.during(made, undefined, () => sent.promise);
    const { labels: under } = writes.change(policy, 'gone');
    expect(under.map(({ pod }) => pod)).toEqual([{ metadata: made.metadata }]);
    sent.resolve(answer);
    await written;
    expect(under.map(({ pod }) => pod)).toEqual([
      { metadata: { ...made.metadata, uid: 'w', resourceVersion: '7' } },
    ]);
  });

  it('are forgotten by a resync once the cache shows them, or one that came later', async () => {
    const writes = new OwnPolicyWrites(() => 0);
    const known = (): number => writes.change(policy, 'gone').labels.length;
    await writes.during(made, undefined, async () => answer);
    const shown = (resourceVersion: string): KubeObject => ({
      metadata: { ...answer.metadata, resourceVersion },
    });
    writes.prune(() => shown('6'));
    expect(known()).toBe(1);
    writes.prune(() => shown('8'));
    expect(known()).toBe(0);
  });
});

describe('a change of a policy', () => {
  it('is forgotten by a resync after its time, and while it is about to be sent never', () => {
    let nowMs = 0;
    const writes = new OwnPolicyWrites(() => nowMs);
    const { end } = writes.change(policy, 'gone');
    nowMs = 600_000;
    writes.prune(() => undefined);
    expect(writes.size).toBe(1);
    end();
    nowMs += 89_999;
    writes.prune(() => undefined);
    expect(writes.becomes(policy)).toBe('gone');
    nowMs += 1;
    writes.prune(() => undefined);
    expect(writes.size).toBe(0);
  });
});
