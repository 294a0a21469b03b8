import { describe, expect, it } from 'vitest';
import { resources } from '../../kube/index.ts';
import { type FakeCluster, startFakeCluster } from '../../kube/testing/index.ts';
import { IdentityGuard } from './identity-guard.ts';

const kubeSystem = { name: 'kube-system' };

async function server(uid: string): Promise<FakeCluster> {
  const cluster = await startFakeCluster();
  cluster.server.put(resources.namespaces, { metadata: { ...kubeSystem, uid } });
  return cluster;
}

describe('the identity guard', () => {
  it('passes the server that it was told to expect, and no other', async () => {
    await using cluster = await server('a');
    expect(await new IdentityGuard(cluster.client, 'a').verify()).toBe(true);
    expect(await new IdentityGuard(cluster.client, 'b').verify()).toBe(false);
  });

  it('expects the first that it sees where none was given', async () => {
    await using cluster = await server('a');
    const guard = new IdentityGuard(cluster.client, undefined);
    expect(guard.expectedUid).toBeUndefined();
    expect(await guard.verify()).toBe(true);
    cluster.server.remove(resources.namespaces, kubeSystem);
    cluster.server.put(resources.namespaces, { metadata: { ...kubeSystem, uid: 'b' } });
    expect(await guard.verify()).toBe(false);
    guard.accept('b');
    expect(await guard.verify()).toBe(true);
  });

  it('does not take a server without kube-system for any', async () => {
    await using cluster = await startFakeCluster();
    const guard = new IdentityGuard(cluster.client, undefined);
    expect(await guard.verify()).toBe(false);
    expect(guard.expectedUid).toBeUndefined();
  });

  it('throws when it cannot tell, to all who wait, and can tell again afterwards', async () => {
    await using cluster = await server('a');
    const guard = new IdentityGuard(cluster.client, 'a');
    cluster.server.inject({ verb: 'get', times: 2, fault: { kind: 'status', code: 500 } });
    const answers = await Promise.allSettled([guard.verify(), guard.verify(), guard.verify()]);
    expect(answers.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
    expect(await guard.verify()).toBe(true);
  });

  it('shares a check among all who came before it began, and with nobody who came later', async () => {
    await using cluster = await server('a');
    const guard = new IdentityGuard(cluster.client, 'a');
    const first = guard.verify();
    const others = Array.from({ length: 50 }, () => guard.verify());
    await first;
    // The check of the others may run; its answer could be older than what this one has seen.
    await Promise.all([...others, guard.verify()]);
    const { length } = cluster.server.requests;
    expect(length).toBeGreaterThanOrEqual(2);
    expect(length).toBeLessThanOrEqual(3);
  });

  it('passes nobody once it distrusts the server', async () => {
    await using cluster = await server('a');
    const guard = new IdentityGuard(cluster.client, 'a');
    const underWay = guard.verify();
    guard.distrust('it has shown its own past');
    expect(await underWay).toBe(false);
    expect(await guard.verify()).toBe(false);
    expect(guard.distrusted).toBe('it has shown its own past');
  });
});
