import { describe, expect, it } from 'vitest';
import type { ControlPlaneTemplate } from '../../../api/control-plane-template.ts';
import type { VirtualCluster, VirtualClusterStatus } from '../../../api/virtual-cluster.ts';
import { loadTemplates } from '../../control-plane/template.ts';
import { endOf, planMove, whyRefused } from './move.ts';

const template = (name: string, datastore: 'shared' | 'own', kubernetesVersion = '1.36.3') =>
  ({
    metadata: { name },
    spec: { kubernetesVersion, datastore, components: [] },
  }) as never as ControlPlaneTemplate;
const packaged = [
  template('v1-35', 'shared', '1.35.4'),
  template('v1-36', 'shared'),
  template('v1-36-lean', 'shared'),
  template('v1-36-own-etcd', 'own'),
];
const vc = (status: VirtualClusterStatus = {}, more: Partial<VirtualCluster> = {}): VirtualCluster => ({
  metadata: { name: 'blue', uid: 'x', generation: 2 },
  status: { version: '1.36.3', driver: 'process', identities: { tenant: 'y' }, ...status },
  ...more,
});
const plan = (to: Parameters<typeof planMove>[1], of = vc(), templates = packaged) =>
  planMove(of, to, async () => templates);

describe('what is asked of the manager to move a tenant', () => {
  it('is the template of its version with that datastore, or the driver', async () => {
    expect((await plan({ datastore: 'own' })).spec).toEqual({ template: 'v1-36-own-etcd' });
    const own = vc({ datastore: 'own' });
    expect((await plan({ datastore: 'shared' }, own)).spec).toEqual({ template: 'v1-36' });
    expect((await plan({ datastore: 'shared', template: 'v1-36-lean' }, own)).spec).toEqual({
      template: 'v1-36-lean',
    });
    expect(await plan({ driver: 'compose' })).toEqual({
      from: { driver: 'process', datastore: 'shared' },
      to: { driver: 'compose', datastore: 'shared' },
      spec: { driver: 'compose' },
    });
  });

  it('is refused where there is nothing to move, or no way', async () => {
    const refused = (...args: Parameters<typeof plan>): Promise<string> =>
      plan(...args).then(
        () => 'not refused',
        (error: Error) => error.message,
      );
    expect(await refused({ driver: 'process' })).toBe('blue is at process/shared already');
    const deleted = { metadata: { name: 'blue', deletionTimestamp: '2026-03-01T12:00:00Z' } };
    expect(await refused({ datastore: 'own' }, vc({}, deleted))).toBe('blue is being deleted');
    expect(await refused({ datastore: 'own' }, { metadata: { name: 'blue' } })).toMatch(/not been ready yet/);
    const to = { driver: 'process', datastore: 'own', template: 'x' } as const;
    const move = { stage: 'copying', from: { ...to, datastore: 'shared' }, to, startedAt: '' } as const;
    expect(await refused({ driver: 'compose' }, vc({ move }))).toBe(
      'blue is being moved to process/own already',
    );
    const older = vc({ version: '1.35.4' });
    expect(await refused({ datastore: 'own' }, older)).toMatch(/no ControlPlaneTemplate of Kubernetes 1.35/);
    const several = [...packaged, template('big-etcd', 'own')];
    expect(await refused({ datastore: 'own' }, vc(), several)).toMatch(
      /--template.*: big-etcd, v1-36-own-etcd/,
    );
  });
});

describe('what a dry run of a move says against it', () => {
  const against = async (to: Parameters<typeof planMove>[1], policy: object, spec: object = {}) => {
    const of = vc({ template: 'v1-36' }, { spec });
    of.metadata.namespace = 'team';
    const templates = await loadTemplates();
    return whyRefused(of, await plan(to, of), {
      templates: { list: () => templates },
      policies: {
        list: () => [{ metadata: { name: 'gold' }, spec: { namespaces: ['team'], ...policy } }] as never,
      },
      settings: { defaultVersion: '1.36' },
      superVersion: 'v1.36.3',
    });
  };

  it.each([
    [
      'the template',
      { datastore: 'own' },
      { templates: ['v1-36'] },
      {},
      /gold does not allow the template v1-36-own-etcd/,
    ],
    ['the driver', { driver: 'compose' }, { drivers: ['process'] }, {}, /gold does not allow.*compose/],
    ['a version beside it', { datastore: 'own' }, {}, { version: '1.36.9' }, /cannot be changed together/],
    ['a version that is refused', { datastore: 'own' }, {}, { version: '1.35' }, /stays at 1.36.3/],
  ] as const)('%s', async (_, to, policy, spec, why) => {
    expect(await against(to, policy, spec)).toMatch(why);
  });

  it('nothing where nothing does', async () => {
    expect(await against({ datastore: 'own' }, { templates: ['v1-36-own-etcd'] })).toBeUndefined();
    expect(
      await against({ driver: 'compose' }, { drivers: ['compose'] }, { version: '1.36.9' }),
    ).toBeUndefined();
  });
});

describe('the end of a move', () => {
  const from = { driver: 'process', datastore: 'shared', template: 'v1-36' } as const;
  const to = { ...from, datastore: 'own' } as const;
  const before = vc({ moved: { at: '1', from, to, pausedMs: 1 } });
  const asked = { before, retry: undefined };
  const first = { before: vc(), retry: undefined };
  const placed = (observedGeneration: number) => ({
    conditions: [
      {
        ...({ type: 'Placed', status: 'False', reason: 'DriverNotConfigured', message: 'not here' } as const),
        ...{ lastTransitionTime: '', observedGeneration },
      },
    ],
  });

  it('is not that of an earlier one, and comes when the tenant is ready', () => {
    expect(endOf(before, asked)).toBeUndefined();
    const moved = { at: '2', from, to, pausedMs: 6_200 };
    expect(endOf(vc({ moved, phase: 'Moving' }), asked)).toBeUndefined();
    expect(endOf(vc({ moved, phase: 'Ready' }), asked)).toBe(6_200);
  });

  it('is an error with the reason when it went back, or was refused', () => {
    const moved = { at: '2', from, to, pausedMs: 9_000, why: 'it does not start' };
    expect(() => endOf(vc({ moved }), asked)).toThrow('blue is where it was, after 9.0 s: it does not start');
    expect(() => endOf(vc(placed(2)), first)).toThrow('blue stays where it is: not here');
    // Of the spec before.
    expect(endOf(vc(placed(1)), first)).toBeUndefined();
    expect(() => endOf(undefined, first)).toThrow('blue is gone');
  });

  it('is told whatever has failed or was cancelled before', () => {
    for (const generation of [1, 2])
      expect(() => endOf(vc({ ...placed(2), jobs: { heldMove: { generation } } }), first)).toThrow(
        'not here',
      );
  });

  it('of one that is tried again is not the failure of the attempt before', () => {
    const [before, again, later] = ['2026-11-01T00:00:00Z', '2026-11-02T00:00:00Z', '2026-11-03T00:00:00Z'];
    const asked = { before: vc({ ...placed(2), jobs: { retried: before } }), retry: again };
    const failed = { ...placed(2), jobs: { heldMove: { generation: 2, why: 'no' }, retried: before } };
    expect(endOf(vc(failed), asked)).toBeUndefined();
    expect(endOf(vc({ jobs: { retried: again } }), asked)).toBeUndefined();
    // By this request, or one that has taken its place.
    for (const retried of [again, later])
      expect(() => endOf(vc({ ...placed(2), jobs: { retried } }), asked)).toThrow('not here');
  });

  it('is waited for whatever was asked for before, by a clock that is ahead too', () => {
    const ahead = { ...placed(2), jobs: { retried: 'zulu' } };
    const asked = { before: vc(ahead), retry: '2026-11-02T00:00:00Z' };
    expect(endOf(vc(ahead), asked)).toBeUndefined();
  });
});
