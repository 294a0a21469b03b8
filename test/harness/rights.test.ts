import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { loadRights, type Rights } from '../../vc-manager/rights.ts';
import {
  type AuditedRequest,
  auditLogOf,
  exceptions,
  parseAuditLine,
  rightsFaults,
  UseOfRights,
} from './rights.ts';

const none: Rights = { cluster: [], namespace: [] };
const syncer: Rights = {
  cluster: [{ apiGroups: [''], resources: ['pods', 'pods/log'], verbs: ['get', 'delete'] }],
  namespace: [
    { apiGroups: ['coordination.k8s.io'], resources: ['leases'], resourceNames: ['one'], verbs: ['update'] },
  ],
};

const lease = 'syncer: update leases.coordination.k8s.io in skerry-system';

function used(...lines: object[]): UseOfRights {
  const use = new UseOfRights({ manager: none, syncer });
  for (const line of lines) {
    const asked = parseAuditLine(JSON.stringify(line));
    if (asked !== undefined) use.observe(asked);
  }
  return use;
}

function event(verb: string, objectRef: object, more: object = {}): object {
  return { verb, requestURI: '/api', user: { username: 'skerry-syncer' }, objectRef, ...more };
}

describe('the use of rights', () => {
  it('names each right that nobody used', () => {
    const use = used(
      event('get', { resource: 'pods', namespace: 'a', name: 'b' }),
      event('get', { resource: 'pods', subresource: 'log', namespace: 'a', name: 'b' }),
    );
    expect(use.unused).toEqual(['syncer: delete pods', 'syncer: delete pods/log', lease]);
    expect(use.refused).toEqual([]);
  });

  it('excuses the gateway while an API server does not know its role yet, and nothing else of it', () => {
    const gateway: Rights = {
      cluster: [{ apiGroups: ['skerry.dev'], resources: ['virtualclusters'], verbs: ['list'] }],
      namespace: [{ apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs: ['patch'] }],
    };
    const use = new UseOfRights({ manager: none, syncer, gateway });
    for (const verb of ['list', 'delete']) {
      const refused = {
        user: { username: 'skerry-gateway' },
        responseStatus: { code: 403 },
        annotations: { 'authorization.k8s.io/decision': 'forbid' },
      };
      const line = event(verb, { apiGroup: 'skerry.dev', resource: 'virtualclusters' }, refused);
      use.observe(parseAuditLine(JSON.stringify(line)) as AuditedRequest);
      const lease = { apiGroup: 'coordination.k8s.io', resource: 'leases', namespace: 'skerry-system' };
      use.observe(parseAuditLine(JSON.stringify(event('patch', lease, refused))) as AuditedRequest);
    }
    expect(use.refused).toEqual(['skerry-gateway may not delete virtualclusters.skerry.dev (1 times)']);
    expect(use.unused.join()).not.toContain('gateway');
  });

  it('counts a right in one namespace, or for one name, only there', () => {
    const ref = { apiGroup: 'coordination.k8s.io', resource: 'leases' };
    const elsewhere = event('update', { ...ref, namespace: 'other', name: 'one' });
    const another = event('update', { ...ref, namespace: 'skerry-system', name: 'two' });
    expect(used(elsewhere, another).unused).toContain(lease);
    const own = event('update', { ...ref, namespace: 'skerry-system', name: 'one' });
    expect(used(elsewhere, another, own).unused).not.toContain(lease);
  });

  it('counts a patch that has made its object as a use of the right to create, too', () => {
    const rights: Rights = {
      ...none,
      cluster: [{ apiGroups: ['apps'], resources: ['statefulsets'], verbs: ['create', 'patch'] }],
    };
    const apply = (code: number) => {
      const use = new UseOfRights({ manager: none, syncer: rights });
      const line = event(
        'patch',
        { apiGroup: 'apps', resource: 'statefulsets', namespace: 'a', name: 'b' },
        { responseStatus: { code } },
      );
      use.observe(parseAuditLine(JSON.stringify(line)) as AuditedRequest);
      return use.unused;
    };
    expect(apply(200)).toEqual(['syncer: create statefulsets.apps']);
    expect(apply(201)).toEqual([]);
  });

  it('knows users by other names, and the rights that only control planes in the cluster need', () => {
    const manager: Rights = {
      ...none,
      kubernetesDriver: [{ apiGroups: [''], resources: ['pods'], verbs: ['list', 'delete'] }],
    };
    const use = new UseOfRights(
      { manager, syncer },
      { userOf: (program) => `system:serviceaccount:a:${program}`, withKubernetesDriver: true },
    );
    const line = event(
      'list',
      { resource: 'pods' },
      { user: { username: 'system:serviceaccount:a:manager' } },
    );
    use.observe(parseAuditLine(JSON.stringify(line)) as AuditedRequest);
    expect(use.unusedByDriver).toEqual(['manager: delete pods']);
    expect(use.unused).toContain('syncer: get pods');
  });

  it('does not take the use of another user for one of its own', () => {
    const admins = event('delete', { resource: 'pods' }, { user: { username: 'system:admin' } });
    expect(used(admins).unused).toContain('syncer: delete pods');
  });

  it('tells what roles refused, and not what other rules did', () => {
    const forbid = { annotations: { 'authorization.k8s.io/decision': 'forbid' } };
    const allow = {
      annotations: { 'authorization.k8s.io/decision': 'allow' },
      responseStatus: { code: 403 },
    };
    const secrets = event('list', { resource: 'secrets', namespace: 'a' }, forbid);
    const use = used(secrets, secrets, event('create', { resource: 'pods', namespace: 'a' }, allow));
    expect(use.refused).toEqual(['skerry-syncer may not list secrets in a namespace (2 times)']);
  });

  it('does not blame roles for what an API server refuses that does not know them yet', () => {
    const forbid = { annotations: { 'authorization.k8s.io/decision': 'forbid' } };
    const use = used(
      event('get', { resource: 'pods', namespace: 'a' }, forbid),
      event('list', { resource: 'pods', namespace: 'a' }, forbid),
    );
    expect(use.refused).toEqual(['skerry-syncer may not list pods in a namespace (1 times)']);
    expect(use.unused).toContain('syncer: get pods');
  });

  it('tells nothing as long as it has not seen both at work', () => {
    const syncers = event('get', { resource: 'pods' });
    const managers = event('get', { resource: 'pods' }, { user: { username: 'skerry-manager' } });
    expect(used(syncers).isTelling).toBe(false);
    expect(used(syncers, managers).isTelling).toBe(true);
  });

  it('excepts nothing that is not granted', async () => {
    const chart = join(import.meta.dirname, '..', '..', 'deploy', 'chart');
    const rights = { manager: await loadRights(chart, 'manager'), syncer: await loadRights(chart, 'syncer') };
    const granted = new Set(new UseOfRights(rights, { withKubernetesDriver: true }).unused);
    expect([...exceptions].filter((right) => !granted.has(right))).toEqual([]);
  });

  it('is not judged where suites failed, which may be those that use a right; refusals are', async () => {
    const stateDir = await mkdtemp(join(tmpdir(), 'skerry-rights-'));
    const log = auditLogOf(stateDir);
    const forbid = { annotations: { 'authorization.k8s.io/decision': 'forbid' } };
    const events = [
      event('get', { resource: 'pods' }, { user: { username: 'skerry-manager' } }),
      event('list', { resource: 'nothings' }, forbid),
    ];
    const faults = async (failed: number): Promise<{ kinds: string[]; told: number }> => {
      const told: string[] = [];
      const tell = (line: string): unknown => told.push(line);
      const all = await rightsFaults(stateDir, { env: { SKERRY_ALL_SUITES: '1' }, failed, tell });
      const kindOf = (fault: string): string => (fault.includes('nobody used') ? 'unused' : 'refused');
      return { kinds: [...new Set(all.map(kindOf))], told: told.length };
    };
    try {
      await mkdir(dirname(log), { recursive: true });
      await writeFile(log, events.map((each) => JSON.stringify(each)).join('\n'));
      expect(await faults(0)).toEqual({ kinds: ['refused', 'unused'], told: 0 });
      expect(await faults(2)).toEqual({ kinds: ['refused'], told: 1 });
    } finally {
      await rm(stateDir, { recursive: true });
    }
  });

  it('leaves out a line that a crash has cut off', () => {
    expect(parseAuditLine('{"verb":"get","requ')).toBeUndefined();
  });
});
