import { describe, expect, it } from 'vitest';
import type { VirtualCluster } from '../api/virtual-cluster.ts';
import type { Assessment } from './backend.ts';
import type { Health, JobRow, OwnTenant } from './types.ts';
import { ownTenant, tenantDetail, tenantRow } from './views.ts';

const quiet: Assessment = { problems: [], failing: [], advice: ['look at it'], quota: [], jobs: [] };

type Status = NonNullable<VirtualCluster['status']>;

function virtualCluster(status: Status, metadata = {}): VirtualCluster {
  return { metadata: { namespace: 'acme', name: 'blue', ...metadata }, spec: {}, status };
}

const condition = (type: string, reason: string, message = 'said') => ({
  ...{ type, status: 'False' as const, reason, message },
  lastTransitionTime: '2026-01-01T00:00:00Z',
});

describe('how a tenant does', () => {
  const job = { kind: 'renewal', id: 'r', startedAt: '2026-01-01T00:00:00Z', attempts: 2 } as const;

  it.each<[Health, Status, string[]]>([
    ['well', { phase: 'Ready' }, []],
    ['busy', {}, []],
    ['busy', { phase: 'Moving' }, []],
    ['asleep', { phase: 'Asleep' }, []],
    ['wrong', { phase: 'Failed' }, []],
    ['wrong', { phase: 'Cancelled' }, []],
    ['wrong', { phase: 'Ready', jobs: { current: { ...job, failing: true } } }, []],
    ['limited', { phase: 'Ready' }, ['PolicyLimited']],
    ['limited', { phase: 'Ready' }, ['Placed', 'DatastoreWithinQuota']],
    ['wrong', { phase: 'Ready' }, ['PolicyLimited', 'Synced']],
  ])('is %s', (health, status, failing) => {
    expect(tenantRow(virtualCluster(status), { ...quiet, failing })).toMatchObject({ health });
  });

  it('comes with advice only where that is needed', () => {
    expect(tenantRow(virtualCluster({ phase: 'Ready' }), quiet).advice).toEqual([]);
    expect(tenantRow(virtualCluster({ phase: 'Failed' }), quiet).advice).toEqual(['look at it']);
  });

  it('is that it is being deleted, whatever its status says', () => {
    const vc = virtualCluster({ phase: 'Ready' }, { deletionTimestamp: '2026-01-01T00:00:00Z' });
    expect(tenantRow(vc, quiet)).toMatchObject({ phase: 'Deleting', health: 'busy' });
  });

  it('names what is fullest of what is limited', () => {
    const quota = [
      { resource: 'pods', used: '1', allowed: '10', share: 0.1 },
      { resource: 'requests.cpu', used: '3', allowed: '4', share: 0.75 },
      { resource: 'services', used: '3', allowed: '*' },
    ];
    expect(tenantRow(virtualCluster({}), { ...quiet, quota })).toMatchObject({
      fullest: { resource: 'requests.cpu', share: 0.75 },
      requestsCpu: '3',
    });
    const unlimited = { ...quiet, quota: quota.slice(2) };
    expect(tenantRow(virtualCluster({}), unlimited).fullest).toBeUndefined();
  });
});

describe('the page of a tenant', () => {
  it('shows a terminal nothing to act on, whoever has written it', () => {
    const vc = virtualCluster({ conditions: [condition('Synced', 'Lost', 'a\u001b[2Jb\nc')] });
    expect(tenantDetail(vc, quiet).conditions).toMatchObject([{ message: 'a?[2Jb c' }]);
    expect(tenantDetail(vc, { ...quiet, advice: ['x\u202ey'] }).advice).toEqual(['x?y']);
  });

  it('marks as wrong only the conditions that are problems of the tenant', () => {
    const conditions = [
      { ...condition('Ready', 'Ready'), status: 'True' as const },
      condition('DeletionHeld', 'None'),
      condition('NetworkPoliciesEnforced', 'NoEngine'),
      condition('TenantsIsolated', 'NoEngine'),
      { ...condition('Synced', 'NoSyncer'), status: 'Unknown' as const },
      condition('DNSReady', 'Unavailable'),
      { ...condition('PolicyLimited', 'Limited'), status: 'True' as const },
    ];
    const assessment = { ...quiet, failing: ['DNSReady', 'PolicyLimited'] };
    const healths = ({ conditions: rows }: Pick<OwnTenant, 'conditions'>) =>
      Object.fromEntries(rows.map(({ type, health }) => [type, health]));
    const wanted = {
      ...{ Ready: 'well', NetworkPoliciesEnforced: 'asleep', Synced: 'asleep' },
      ...{ DNSReady: 'wrong', PolicyLimited: 'limited' },
    };
    expect(healths(ownTenant(virtualCluster({ conditions }), assessment))).toEqual(wanted);
    expect(healths(tenantDetail(virtualCluster({ conditions }), assessment))).toEqual({
      ...wanted,
      ...{ DeletionHeld: 'well', TenantsIsolated: 'asleep' },
    });
    const noSyncer = { ...quiet, failing: ['Synced'] };
    expect(healths(ownTenant(virtualCluster({ conditions }), noSyncer))).toMatchObject({ Synced: 'wrong' });
  });

  it('leaves out facts that are not there', () => {
    const { facts } = tenantDetail(virtualCluster({ id: 'abc', datastore: 'own' }), quiet);
    expect(facts).toEqual([
      ['Id', 'abc'],
      ['Datastore', 'an etcd of its own'],
    ]);
  });

  it('lists certificates, for operators and for itself', () => {
    const certificates = [
      { name: 'ca', kind: 'authority', expires: '2036-01-01T00:00:00.000Z' },
      { name: 'admin', kind: 'certificate', expires: '2027-01-01T00:00:00.000Z' },
    ] as const;
    const vc = virtualCluster({ certificates: [...certificates] });
    expect(tenantDetail(vc, quiet).certificates).toEqual(certificates);
    expect(ownTenant(vc, quiet).certificates).toEqual(certificates);
    expect(tenantDetail(virtualCluster({}), quiet).certificates).toEqual([]);
  });

  it('of its own has no holder, step or message of a job, no advice, and no namespace in the name of a snapshot', () => {
    const job: JobRow = {
      ...{ kind: 'snapshot', id: 's', state: 'Running', attempts: 1, startedAt: '2026-01-01T00:00:00Z' },
      ...{ step: 'write', holder: 'manager-7', message: 'to s3://operators' },
    };
    const kept = { name: 'acme/blue/one.snapshot', at: '2026-01-01T00:00:00Z', reason: 'Requested' } as const;
    const status: Status = {
      phase: 'Failed',
      conditions: [
        condition('Ready', 'Broken', 'at 10.0.0.7'),
        condition('PolicyLimited', 'Limited', 'yours'),
        condition('DatastoreReady', 'Away', 'etcd-7'),
      ],
      snapshots: { kept: [{ ...kept, kubernetes: '1.36.3', entries: 1, bytes: 2 }] },
    };
    const own = ownTenant(virtualCluster(status), {
      ...quiet,
      jobs: [job],
    });
    expect(own.jobs).toEqual([{ kind: 'snapshot', state: 'Running', startedAt: job.startedAt }]);
    expect(own.conditions).toMatchObject([
      { type: 'Ready', reason: 'Broken', message: '' },
      { type: 'PolicyLimited', message: 'yours' },
    ]);
    expect(own.snapshots).toMatchObject([{ name: 'one.snapshot' }]);
    expect(JSON.stringify(own)).not.toMatch(/manager-7|operators|etcd-7|look at it|acme/);
  });
});
