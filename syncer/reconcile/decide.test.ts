import { describe, expect, it } from 'vitest';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import { type KubeObject, resources } from '../../kube/index.ts';
import type { Action, DownKind, UpKind } from '../kinds/contract.ts';
import { testContext } from '../kinds/testing.ts';
import { superMetadata } from '../mapping/metadata.ts';
import { decideDown, decideUp, type Situation } from './decide.ts';

const context = testContext();
const patchSuper: Action = { do: 'patchSuper', patch: { data: {} } };
const patchTenant: Action = { do: 'patchTenant', patch: { data: {} } };

const downKind: DownKind = {
  name: 'configmaps',
  resource: resources.configMaps,
  direction: 'down',
  toSuper: (object) => ({ metadata: superMetadata(object, context) }),
  down: () => [patchSuper],
  up: () => [patchTenant],
};

const upKind: UpKind = {
  name: 'storageclasses',
  resource: resources.storageClasses,
  direction: 'up',
  tenantRef: (object) => ({ name: object.metadata.name ?? '' }),
  superRef: (ref) => ref,
  toTenant: (object) => ({ metadata: { name: object.metadata.name ?? '' } }),
  up: () => [patchTenant],
};

function tenantObject(metadata: KubeObject['metadata'] = {}): KubeObject {
  return { metadata: { name: 'x', namespace: 'shop', uid: 't1', ...metadata } };
}

function superObject(uid = 't1', metadata: KubeObject['metadata'] = {}): KubeObject {
  const made = superMetadata(tenantObject({ uid }), context);
  return { metadata: { ...made, uid: 's1', ...metadata } };
}

function situation(parts: Partial<Situation>): Situation {
  return {
    key: { kind: 'configmaps', namespace: 'shop', name: 'x' },
    tenantObject: undefined,
    superObject: undefined,
    tenantTombstone: undefined,
    superTombstone: undefined,
    createdUid: undefined,
    namespaceReady: true,
    context,
    ...parts,
  };
}

const what = (actions: readonly Action[]): string[] => actions.map((action) => action.do);

describe('the four cases of an object born in the tenant (sync rule `four-cases`)', () => {
  it('only the tenant object: creates the super object', () => {
    const { actions, check } = decideDown(downKind, situation({ tenantObject: tenantObject() }));
    expect(what(actions)).toEqual(['createSuper']);
    expect(check).toBeUndefined();
  });

  it('only a tenant object that is being deleted: creates nothing', () => {
    const t = tenantObject({ deletionTimestamp: '2026-01-01T00:00:00Z' });
    expect(decideDown(downKind, situation({ tenantObject: t })).actions).toEqual([]);
  });

  it('only a tenant object that a rule refuses: says so and creates nothing', () => {
    const notice = { type: 'Warning', reason: 'NotSupported', message: 'no' } as const;
    const kind: DownKind = { ...downKind, admit: () => ({ wanted: false, notice }) };
    expect(decideDown(kind, situation({ tenantObject: tenantObject() })).actions).toEqual([
      { do: 'notice', notice, isRefusal: true },
    ]);
  });

  it('creates nothing in a super namespace that is not yet the tenant namespace’s own', () => {
    const { actions } = decideDown(
      downKind,
      situation({ tenantObject: tenantObject(), namespaceReady: false }),
    );
    expect(actions[0]).toEqual({ do: 'require', keys: [{ kind: 'namespaces', name: 'shop' }] });
  });

  it('waits for the watch when it has just created the super object', () => {
    const { actions } = decideDown(downKind, situation({ tenantObject: tenantObject(), createdUid: 's1' }));
    expect(what(actions)).toEqual(['later']);
  });

  it('both, the super object with its UID mark: brings both up to date', () => {
    const { actions } = decideDown(
      downKind,
      situation({ tenantObject: tenantObject(), superObject: superObject() }),
    );
    expect(what(actions)).toEqual(['patchSuper', 'patchTenant']);
  });

  it('does not write to a super object that is being deleted, but takes its last status up', () => {
    const s = superObject('t1', { deletionTimestamp: '2026-01-01T00:00:00Z' });
    const { actions } = decideDown(downKind, situation({ tenantObject: tenantObject(), superObject: s }));
    expect(what(actions)).toEqual(['patchTenant']);
  });

  it('both, the super object with another UID mark: deletes the super object after an identity check of the tenant', () => {
    const { actions, check } = decideDown(
      downKind,
      situation({ tenantObject: tenantObject(), superObject: superObject('earlier') }),
    );
    expect(what(actions)).toEqual(['deleteSuper']);
    expect(check).toMatchObject({ side: 'tenant', unwatched: false });
  });

  it('only a super object of ours: deletes it; a deletion that was not watched is checked live and counted', () => {
    const s = superObject();
    const seen = { uid: 't1', object: tenantObject() };
    expect(decideDown(downKind, situation({ superObject: s, tenantTombstone: seen })).check).toEqual({
      side: 'tenant',
      live: false,
      unwatched: false,
    });
    expect(decideDown(downKind, situation({ superObject: s })).check).toEqual({
      side: 'tenant',
      live: true,
      unwatched: true,
    });
    const another = { uid: 't0', object: tenantObject() };
    expect(
      decideDown(downKind, situation({ superObject: s, tenantTombstone: another })).check?.unwatched,
    ).toBe(true);
  });

  it('checks namespaces and claims live even when their deletion was watched (sync rule `confirmed-delete`)', () => {
    const kind: DownKind = { ...downKind, deleteNeedsLiveCheck: true };
    const seen = { uid: 't1', object: tenantObject() };
    const { check } = decideDown(kind, situation({ superObject: superObject(), tenantTombstone: seen }));
    expect(check).toEqual({ side: 'tenant', live: true, unwatched: false });
  });

  it('a super object that is not ours: never touches it, with or without a tenant object', () => {
    const foreign: KubeObject = { metadata: { name: 'x', namespace: 'n', uid: 's9' } };
    const { actions } = decideDown(
      downKind,
      situation({ tenantObject: tenantObject(), superObject: foreign }),
    );
    expect(what(actions)).toEqual(['notice']);
    expect(decideDown(downKind, situation({ superObject: foreign })).actions).toEqual([]);
    const others = superObject('t1', { labels: { [labelKeys.tenant]: 'another tenant' } });
    expect(decideDown(downKind, situation({ superObject: others })).actions).toEqual([]);
  });

  it('deletes the super object again only when that ends it sooner', () => {
    const kind: DownKind = { ...downKind, hasGrace: true };
    const going = superObject('t1', { deletionTimestamp: 'x', deletionGracePeriodSeconds: 30 });
    const tenantTombstone = { uid: 't1', object: tenantObject() };
    expect(decideDown(kind, situation({ superObject: going, tenantTombstone })).actions).toEqual([
      { do: 'deleteSuper', gracePeriodSeconds: 0 },
    ]);
    const last = superObject('t1', { deletionTimestamp: 'x', deletionGracePeriodSeconds: 0 });
    expect(decideDown(kind, situation({ superObject: last, tenantTombstone })).actions).toEqual([]);
    expect(decideDown(kind, situation({ superObject: going })).actions).toEqual([]);
    expect(decideDown(downKind, situation({ superObject: going, tenantTombstone })).actions).toEqual([]);
  });

  it('leaves the super object its own grace, unless the tenant object was seen going: then that was forced', () => {
    const kind: DownKind = { ...downKind, hasGrace: true };
    const tenantTombstone = { uid: 't1', object: tenantObject() };
    const decide = (of: DownKind, parts: Partial<Situation>) =>
      decideDown(of, situation({ superObject: superObject(), ...parts })).actions;
    expect(decide(kind, { tenantTombstone })).toEqual([{ do: 'deleteSuper', gracePeriodSeconds: 0 }]);
    expect(decide(kind, {})).toEqual([{ do: 'deleteSuper' }]);
    expect(decide(downKind, { tenantTombstone })).toEqual([{ do: 'deleteSuper' }]);
  });

  it('a super object gone although the tenant object shows that it was there: does what the kind says, after a live look', () => {
    const kind: DownKind = { ...downKind, superGone: () => [{ do: 'deleteTenant' }] };
    const { actions, check } = decideDown(kind, situation({ tenantObject: tenantObject() }));
    expect(what(actions)).toEqual(['deleteTenant']);
    expect(check).toEqual({ side: 'super', live: true, unwatched: true });
  });

  it('looks live even if the super object was seen going, for it may only have left the watch', () => {
    const kind: DownKind = { ...downKind, superGone: () => [{ do: 'deleteTenant' }] };
    const seen = { uid: 's1', object: superObject('t1') };
    const { check } = decideDown(kind, situation({ tenantObject: tenantObject(), superTombstone: seen }));
    expect(check).toEqual({ side: 'super', live: true, unwatched: false });
    const another = { uid: 's0', object: superObject('t0') };
    const unseen = decideDown(kind, situation({ tenantObject: tenantObject(), superTombstone: another }));
    expect(unseen.check).toMatchObject({ unwatched: true });
  });

  it('makes no live check when both were being deleted and the super object was seen going', () => {
    const kind: DownKind = { ...downKind, superGone: () => [{ do: 'deleteTenant' }] };
    const deletion = { deletionTimestamp: '2026-01-01T00:00:00Z' };
    const look = (t: KubeObject['metadata'], s: KubeObject['metadata'], uid = 't1') =>
      decideDown(
        kind,
        situation({
          tenantObject: tenantObject(t),
          superTombstone: { uid: 's1', object: superObject(uid, s) },
        }),
      ).check;
    expect(look(deletion, deletion)).toEqual({ side: 'super', live: false, unwatched: false });
    expect(look(deletion, {})).toMatchObject({ live: true });
    expect(look({}, deletion)).toMatchObject({ live: true });
    expect(look(deletion, deletion, 't0')).toMatchObject({ live: true });
  });

  it('does not count a tenant object that is being deleted anyway', () => {
    const kind: DownKind = { ...downKind, superGone: () => [{ do: 'deleteTenant' }] };
    const leaving = tenantObject({ deletionTimestamp: '2026-01-01T00:00:00Z' });
    expect(decideDown(kind, situation({ tenantObject: leaving })).check).toMatchObject({ unwatched: false });
  });

  it('removes a super object that is not wanted any more, unless too much is missing', () => {
    const kind: DownKind = { ...downKind, admit: () => ({ wanted: false }) };
    const both = situation({ tenantObject: tenantObject(), superObject: superObject() });
    expect(what(decideDown(kind, both).actions)).toEqual(['deleteSuper']);
    expect(decideDown(kind, both).check).toEqual({ side: 'tenant', live: false, unwatched: true });
    const keeping: DownKind = { ...downKind, admit: () => ({ wanted: false, keep: true }) };
    expect(what(decideDown(keeping, both).actions)).toEqual(['patchTenant']);
  });
});

describe('the same cases for an object born in the super cluster', () => {
  const key = { kind: 'storageclasses', name: 'fast' };
  const there: KubeObject = { metadata: { name: 'fast', uid: 's1' } };
  const copy = (uid: string): KubeObject => ({
    metadata: { name: 'fast', uid: 'c1', annotations: { [annotationKeys.uid]: uid } },
  });

  it('makes a copy where there is none', () => {
    expect(what(decideUp(upKind, situation({ key, superObject: there })).actions)).toEqual(['createTenant']);
  });

  it('keeps a copy up to date', () => {
    const both = situation({ key, superObject: there, tenantObject: copy('s1') });
    expect(what(decideUp(upKind, both).actions)).toEqual(['patchTenant']);
  });

  it('replaces the copy of an earlier object of that name', () => {
    const both = situation({ key, superObject: there, tenantObject: copy('s0') });
    expect(what(decideUp(upKind, both).actions)).toEqual(['deleteTenant']);
  });

  it('leaves an object of the tenant’s own alone, and says so', () => {
    const own: KubeObject = { metadata: { name: 'fast', uid: 'c1' } };
    expect(what(decideUp(upKind, situation({ key, superObject: there, tenantObject: own })).actions)).toEqual(
      ['notice'],
    );
    expect(decideUp(upKind, situation({ key, tenantObject: own })).actions).toEqual([]);
  });

  it('brings a copy up to date that has lost its mark, if the kind knows it all the same', () => {
    const kind: UpKind = { ...upKind, adopts: (own) => own.metadata.uid === 'c1' };
    const stripped: KubeObject = { metadata: { name: 'fast', uid: 'c1' } };
    const decide = (own: KubeObject) =>
      what(decideUp(kind, situation({ key, superObject: there, tenantObject: own })).actions);
    expect(decide(stripped)).toEqual(['patchTenant']);
    expect(decide({ metadata: { name: 'fast', uid: 'c2' } })).toEqual(['notice']);
  });

  it('removes a copy whose original is gone, after a live look unless that was watched', () => {
    const alone = situation({ key, tenantObject: copy('s1') });
    expect(decideUp(upKind, alone)).toMatchObject({
      actions: [{ do: 'deleteTenant' }],
      check: { side: 'super', live: true, unwatched: true },
    });
    const watched = situation({
      key,
      tenantObject: copy('s1'),
      superTombstone: { uid: 's1', object: there },
    });
    expect(decideUp(upKind, watched).check).toMatchObject({ unwatched: false });
    const another = situation({
      key,
      tenantObject: copy('s1'),
      superTombstone: { uid: 's0', object: there },
    });
    expect(decideUp(upKind, another).check).toMatchObject({ unwatched: true });
  });
});

describe('a condition that says that a tenant object waits for its quota (sync rule `quota`)', () => {
  const waiting = { type: 'skerry.dev/WithinQuota', status: 'False' };
  const own = (metadata: KubeObject['metadata'] = {}): KubeObject => ({
    ...tenantObject(metadata),
    status: { conditions: [waiting, { type: 'Ready', status: 'True' }] },
  });
  const removal: Action = {
    do: 'patchTenant',
    subresource: 'status',
    patch: { status: { conditions: [{ type: 'Ready', status: 'True' }] } },
  };
  const agreeing: DownKind = { ...downKind, hasConditions: true, down: () => [], up: () => [] };
  const both = { tenantObject: own(), superObject: superObject() };

  it('goes when both sides agree', () => {
    expect(decideDown(agreeing, situation(both)).actions).toEqual([removal]);
  });

  it('goes when nothing is to be written for another reason, which is said', () => {
    const notice = { type: 'Warning', reason: 'No', message: 'no' } as const;
    const refusing: DownKind = { ...agreeing, admit: () => ({ wanted: false, notice }) };
    const { actions } = decideDown(refusing, situation({ tenantObject: own() }));
    expect(actions).toEqual([{ do: 'notice', notice, isRefusal: true }, removal]);
  });

  it('stays while there is something to be written, which may wait, or to be waited for', () => {
    for (const [kind, parts] of [
      [agreeing, { tenantObject: own() }],
      [agreeing, { tenantObject: own(), createdUid: 's1' }],
      [{ ...agreeing, down: () => [patchSuper] }, both],
      [{ ...agreeing, up: () => [patchTenant] }, both],
    ] as const)
      expect(decideDown(kind, situation(parts)).actions).not.toContainEqual(removal);
  });

  it('stays on what is being deleted, and where the kind has no conditions of ours', () => {
    const leaving = { ...both, tenantObject: own({ deletionTimestamp: '2026-01-01T00:00:00Z' }) };
    expect(decideDown(agreeing, situation(leaving)).actions).toEqual([]);
    const { hasConditions: _none, ...without } = agreeing;
    expect(decideDown(without, situation(both)).actions).toEqual([]);
  });
});
