import { describe, expect, it } from 'vitest';
import { type KubeObject, resources } from '../../kube/index.ts';
import { Bench } from './testing/bench.ts';

const container = { name: 'main', image: 'nginx:1' };
const spec = { serviceAccountName: 'default', nodeName: 'n1', containers: [container] };

/** A running pod on both sides, T changed by `change` since. */
async function changedPod(change: Record<string, unknown>): Promise<Bench> {
  const bench = await Bench.start();
  bench.namespace('shop');
  bench.have('tenant', resources.nodes, { metadata: { name: 'n1' } });
  const annotations = { 'skerry.dev/super-uid': 'uid-of-s' };
  const t = bench.have('tenant', resources.pods, {
    metadata: { namespace: 'shop', name: 'web', annotations },
    spec: { ...spec, ...change },
    status: { phase: 'Pending' },
  });
  const s = bench.superOf(t, { spec, status: { phase: 'Running' } });
  bench.have('super', resources.pods, { ...s, metadata: { ...s.metadata, uid: 'uid-of-s' } });
  return bench;
}

const resize = { containers: [{ ...container, resources: { requests: { cpu: '1' } } }] };
const patches = (bench: Bench): (string | undefined)[] =>
  bench.super.server.requests.filter(({ verb }) => verb === 'patch').map(({ subresource }) => subresource);
const inSuper = (bench: Bench): KubeObject | undefined =>
  bench.super.server.get(resources.pods, { namespace: bench.shop, name: 'web' });
const events = (bench: Bench): unknown[] =>
  bench.tenant.server.list(resources.events).map(({ reason, message }) => [reason, message]);

describe('writes to subresources of a pod in the super cluster (sync rule 16)', () => {
  it('are several in one go, as each makes S another one', async () => {
    await using bench = await changedPod(resize);
    await bench.reconcile('pods', 'web', 'shop');
    expect(patches(bench)).toEqual(['resize', undefined]);
    expect(inSuper(bench)).toMatchObject({ spec: resize });
    expect(inSuper(bench)?.metadata.annotations).toHaveProperty(['skerry.dev/resources']);
  });

  it('may be refused: T is told in scrubbed words, has its status all the same, and it is tried again later', async () => {
    await using bench = await changedPod(resize);
    const message = `pods "web" in ${bench.shop}: no room`;
    const fault = { kind: 'status', code: 422, reason: 'Invalid', message } as const;
    bench.super.server.inject({ verb: 'patch', fault });
    const outcome = await bench.reconcile('pods', 'web', 'shop');
    expect(outcome).toEqual({ is: 'later', afterMs: 60_000 });
    const own = bench.tenant.server.get(resources.pods, { namespace: 'shop', name: 'web' });
    expect(own).toMatchObject({ status: { phase: 'Running' } });
    expect(events(bench)).toEqual([['SyncRefused', expect.stringMatching(/^pods "web" in shop: no room/)]]);
    // What was refused is not taken for done.
    expect(inSuper(bench)?.metadata.annotations).not.toHaveProperty(['skerry.dev/resources']);
  });

  it('that fail otherwise are tried again as any other', async () => {
    await using bench = await changedPod({ ephemeralContainers: [{ name: 'debugger', image: 'x' }] });
    bench.super.server.inject({
      verb: 'patch',
      fault: { kind: 'status', code: 500, reason: 'InternalError' },
    });
    expect(await bench.reconcile('pods', 'web', 'shop')).toMatchObject({ is: 'retry' });
    expect(events(bench)).toEqual([]);
    // The cache is behind what the first run has written to T.
    const own = bench.tenant.server.get(resources.pods, { namespace: 'shop', name: 'web' }) as KubeObject;
    bench.show('tenant', resources.pods, own);
    await bench.reconcile('pods', 'web', 'shop');
    expect(inSuper(bench)).toMatchObject({ spec: { ephemeralContainers: [{ name: 'debugger' }] } });
  });
});
