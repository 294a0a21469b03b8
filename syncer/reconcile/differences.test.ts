import { describe, expect, it } from 'vitest';
import type { Difference } from '../../api/difference-report.ts';
import { resources } from '../../kube/index.ts';
import { SyncEngine } from '../engine.ts';
import type { SyncedKind } from '../kinds/contract.ts';
import { allKinds } from '../kinds/registry.ts';
import { differencesPage } from '../observability/debug-pages.ts';
import { ReconcilerHarness } from './testing/reconciler-harness.ts';
import { settings } from './testing/resync-of.ts';

/** The engine of a harness at rest: it has joined the tenant, and nothing is carried out. */
function engineOf(harness: ReconcilerHarness, kinds: readonly SyncedKind[] = allKinds): SyncEngine {
  const engine = new SyncEngine({
    kinds,
    superClient: harness.super.client,
    superCaches: harness.superCaches,
    superIdentity: harness.superIdentity,
    clock: harness.clock,
    workers: 1,
    onMismatch: () => undefined,
    onHeld: () => undefined,
  });
  engine.join(harness.state, 1);
  return engine;
}

async function differencesOf(harness: ReconcilerHarness): Promise<Record<string, Difference>> {
  const report = await engineOf(harness).differences(harness.state.label, 100);
  expect(report?.total).toBe(report?.differences.length);
  return Object.fromEntries((report?.differences ?? []).map((each) => [each.name, each]));
}

describe('what differs between both sides', () => {
  it('is told object by object, with where and why', async () => {
    await using harness = await ReconcilerHarness.start();
    harness.namespace('shop');
    harness.have('tenant', resources.configMaps, settings('missing'));
    harness.have(
      'super',
      resources.configMaps,
      harness.superOf({ metadata: { name: 'left', namespace: 'shop', uid: 'earlier' } }),
    );
    const service = harness.have('tenant', resources.services, {
      metadata: { name: 'web', namespace: 'shop' },
      spec: { selector: { app: 'web' }, ports: [{ port: 80 }], type: 'ClusterIP' },
    });
    harness.have(
      'super',
      resources.services,
      harness.superOf(service, {
        spec: { selector: { app: 'other' }, ports: [{ port: 80 }], type: 'ClusterIP' },
      }),
    );
    harness.have('tenant', resources.pods, {
      metadata: { name: 'root', namespace: 'shop' },
      spec: { containers: [{ name: 'main', image: 'x', securityContext: { privileged: true } }] },
    });
    const found = await differencesOf(harness);
    expect(found['missing']).toMatchObject({ kind: 'configmaps', is: 'missing-in-super', state: 'queued' });
    expect(found['left']).toMatchObject({ is: 'orphan' });
    expect(found['web']).toMatchObject({
      is: 'differs',
      fields: expect.arrayContaining([expect.stringMatching(/^spec\.selector/)]),
    });
    expect(found['root']).toMatchObject({
      is: 'refused',
      state: 'refused',
      why: expect.stringMatching(/privileged/),
    });
    expect(JSON.stringify(found)).not.toContain('other');
  });

  it('says what a key waits for: the operator, another object, the next try', async () => {
    await using harness = await ReconcilerHarness.start();
    harness.namespace('shop');
    for (const name of ['held', 'refused', 'failing'])
      harness.have('tenant', resources.configMaps, settings(name));
    harness.have('tenant', resources.namespaces, { metadata: { name: 'bank' } });
    harness.have('tenant', resources.configMaps, {
      metadata: { ...settings('waiting').metadata, namespace: 'bank' },
    });
    harness.state.held.set('configmaps/shop/held', true);
    harness.state.failures.set('configmaps/shop/refused', { isRefused: true, message: 'too large' });
    harness.state.failures.set('configmaps/shop/failing', { isRefused: false, message: 'no answer' });
    const found = await differencesOf(harness);
    expect(found['held']).toMatchObject({
      state: 'held',
      why: expect.stringContaining('deletions are stopped'),
    });
    expect(found['refused']).toMatchObject({ state: 'refused', why: expect.stringContaining('too large') });
    expect(found['failing']).toMatchObject({ state: 'failing', why: expect.stringContaining('no answer') });
    expect(found['waiting']).toMatchObject({ state: 'waiting', why: 'has to wait for namespaces bank' });
  });

  it('says that a deletion is stopped also where more are held than are remembered', async () => {
    await using harness = await ReconcilerHarness.start();
    harness.namespace('shop');
    const t = { ...settings('left'), metadata: { ...settings('left').metadata, uid: 't1' } };
    harness.have('super', resources.configMaps, harness.superOf(t));
    harness.have('tenant', resources.configMaps, settings('new'));
    expect((await differencesOf(harness))['left']).toMatchObject({ state: 'queued' });
    for (let index = 0; index < 20_000; index += 1)
      harness.state.held.set(`configmaps/shop/x-${index}`, true);
    expect(harness.state.held.size).toBe(10_000);
    const found = await differencesOf(harness);
    expect(found['left']).toMatchObject({ state: 'held' });
    expect(found['new']).toMatchObject({ state: 'queued' });
  });

  it('says why an object cannot be compared', async () => {
    await using harness = await ReconcilerHarness.start();
    harness.namespace('shop');
    harness.have('tenant', resources.configMaps, settings('poison'));
    const kinds = allKinds.map((kind): SyncedKind => {
      if (kind.direction === 'up' || kind.name !== 'configmaps') return kind;
      return {
        ...kind,
        admit: () => {
          throw new TypeError('a defect');
        },
      };
    });
    const report = await engineOf(harness, kinds).differences(harness.state.label, 100);
    expect(report?.differences).toMatchObject([
      { name: 'poison', state: 'failing', why: 'it cannot be compared: a defect' },
    ]);
  });

  it('is nothing where both agree, and counted beyond what is listed', async () => {
    await using harness = await ReconcilerHarness.start();
    expect(await engineOf(harness).differences(harness.state.label, 1)).toMatchObject({ total: 0 });
    harness.namespace('shop');
    for (const name of ['a', 'b']) harness.have('tenant', resources.configMaps, settings(name));
    const report = await engineOf(harness).differences(harness.state.label, 1);
    expect(report?.total).toBeGreaterThan(1);
    expect(report?.differences).toHaveLength(1);
    expect(await engineOf(harness).differences('acme/nobody', 1)).toBeUndefined();
  });
});

describe('/debug/differences', () => {
  it.each([
    ['', 400, 'BadRequest'],
    ['tenant=a/b&most=0', 400, 'BadRequest'],
    ['tenant=a/b', 404, 'UnknownTenant'],
  ])('answers "%s" with %i %s', async (query, status, reason) => {
    const answer = await differencesPage(async () => undefined, new URLSearchParams(query));
    expect(answer).toMatchObject({ status, body: { reason } });
  });

  it('answers with the report of a tenant that is served', async () => {
    const report = { tenant: 'a/b', compared: 3, total: 0, differences: [] };
    const asked: unknown[] = [];
    const answer = await differencesPage(async (...all) => {
      asked.push(all);
      return report;
    }, new URLSearchParams('tenant=a/b&most=7'));
    expect([answer, asked]).toEqual([{ status: 200, body: report }, [['a/b', 7]]]);
  });
});
