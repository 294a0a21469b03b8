import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type KubeObject, resources, untilAborted } from '../../../kube/index.ts';
import { type FakeCluster, startFakeCluster } from '../../../kube/testing/index.ts';
import { TargetPods } from './target-pods.ts';

const namespace = 'bench';
let cluster: FakeCluster;
let target: TargetPods;

function pod(name: string, ready = false): KubeObject {
  const conditions = [{ type: 'Ready', status: ready ? 'True' : 'False' }];
  return { apiVersion: 'v1', kind: 'Pod', metadata: { name, namespace }, status: { conditions } };
}

function makeReady(name: string): void {
  cluster.server.put(resources.pods, pod(name, true));
}

beforeEach(async () => {
  cluster = await startFakeCluster();
  target = new TargetPods({ name: 'a', namespace, connection: cluster.server.connectionOptions });
});

afterEach(async () => {
  await target.close();
  await cluster[Symbol.asyncDispose]();
});

const never = new AbortController().signal;

describe('the pods of a target', () => {
  it('are created as they are named, with or without a token', async () => {
    await target.open();
    await target.create('plain', never);
    target.withTokens = true;
    await target.create('token', never);
    const { items } = await cluster.client.list(resources.pods, { namespace });
    const automount = items.map(({ metadata, ...rest }) => [
      metadata.name,
      (rest['spec'] as { automountServiceAccountToken?: boolean }).automountServiceAccountToken,
    ]);
    expect(automount).toEqual([
      ['plain', false],
      ['token', undefined],
    ]);
  });

  it('are told to be Ready when the watch shows it', async () => {
    await target.open();
    const ready = new Promise<void>((resolve) => target.whenReady('web', resolve));
    await target.create('web', never);
    makeReady('web');
    await ready;
    expect(target.isReady('web')).toBe(true);
  });

  it('are known from the first list', async () => {
    makeReady('old');
    cluster.server.put(resources.pods, pod('young'));
    await target.open();
    expect(target.names().sort()).toEqual(['old', 'young']);
    expect([target.isReady('old'), target.isReady('young')]).toEqual([true, false]);
    await target.ready('old');
  });

  it('are listed again when the watch has lost its place, and nothing is missed', async () => {
    cluster.server.inject({ fault: { kind: 'error-event', code: 410, reason: 'Expired' }, verb: 'watch' });
    await target.open();
    const ready = target.ready('web');
    makeReady('web');
    // Whoever asks for what came after the first list is refused from now on.
    cluster.server.compact();
    await ready;
  });

  it('are created although the server is busy, and it is told', async () => {
    await target.open();
    cluster.server.inject({
      fault: { kind: 'status', code: 429, retryAfterSeconds: 0 },
      verb: 'create',
      times: 2,
    });
    await target.create('web', never);
    expect(target.retries).toBe(2);
  });

  it('are refused with the words of the server', async () => {
    await target.open();
    const fault = { kind: 'status', code: 403, message: 'exceeded quota: "pods"' } as const;
    cluster.server.inject({ fault, verb: 'create' });
    await expect(target.create('web', never)).rejects.toThrow('create pods: HTTP 403, exceeded quota');
  });

  it('are gone when the watch shows it, not when the delete is answered', async () => {
    makeReady('web');
    await target.open();
    let time = 0;
    const removal = await target.remove('web', () => time++, { signal: never, over: untilAborted(never) });
    expect(removal).toEqual({ target: 'a', deletedMs: 0, goneMs: 1 });
    expect(target.names()).toEqual([]);
  });

  it('stay without a time when they are not gone in time', async () => {
    makeReady('web');
    cluster.server.inject({ fault: { kind: 'hang' }, verb: 'delete' });
    await target.open();
    const signal = AbortSignal.timeout(20);
    const removal = await target.remove('web', () => 5, { signal, over: untilAborted(signal) });
    expect(removal).toEqual({ target: 'a', deletedMs: 5 });
  });
});
