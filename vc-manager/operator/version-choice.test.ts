import { beforeAll, describe, expect, it } from 'vitest';
import type { ControlPlaneTemplate } from '../../api/control-plane-template.ts';
import type { VirtualClusterPolicy } from '../../api/policy.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { loadTemplates } from '../control-plane/template.ts';
import type { ControlPlaneDriver } from '../drivers/driver.ts';
import { wantedMove } from './moves.ts';
import { versionChoice } from './version-choice.ts';

const own = 'v1-36-own-etcd';
let packaged: ControlPlaneTemplate[];

beforeAll(async () => {
  packaged = await loadTemplates();
});

/** One of the packaged templates under another name, or changed. */
function like(name: string, as: string, spec: Partial<ControlPlaneTemplate['spec']> = {}) {
  const template = packaged.find(({ metadata }) => metadata.name === name) as ControlPlaneTemplate;
  return { ...template, metadata: { name: as }, spec: { ...template.spec, ...spec } };
}

/** The packaged templates, but for those that have the name of one of these. */
function withTemplates(...others: ControlPlaneTemplate[]): ControlPlaneTemplate[] {
  const names = others.map(({ metadata }) => metadata.name);
  return [...packaged.filter(({ metadata }) => !names.includes(metadata.name)), ...others];
}

function look(
  spec: VirtualCluster['spec'],
  status: Partial<NonNullable<VirtualCluster['status']>>,
  {
    templates = packaged,
    allowed,
  }: { templates?: ControlPlaneTemplate[]; allowed?: string[] | undefined } = {},
) {
  const vc = {
    metadata: { name: 'a', namespace: 'tenants', generation: 2 },
    spec,
    status: {
      driver: 'process',
      version: '1.36.3',
      identities: { tenant: 'uid' },
      ...status,
    },
  } as VirtualCluster;
  const policy = { metadata: { name: 'gold' }, spec: { namespaces: ['*'], templates: allowed } };
  const services = {
    templates: { list: () => templates },
    policies: { list: () => (allowed === undefined ? [] : [policy as VirtualClusterPolicy]) },
    settings: { defaultVersion: '1.36', gateway: undefined, etcdEndpoint: 'http://127.0.0.1:2379' },
    superVersion: '1.38.0',
    drivers: new Map([['process', {} as ControlPlaneDriver]] as const),
  };
  const { choice, elsewhere, refusal } = versionChoice(vc, services);
  return {
    template: choice.template.metadata.name,
    version: choice.version,
    elsewhere: elsewhere?.template.metadata.name,
    move: wantedMove(vc, services)?.to.datastore,
    reason: refusal?.reason,
    stays: wantedMove(vc, services)?.refusal?.reason,
  };
}

const stays = {
  ...{ template: own, version: '1.36.3' },
  elsewhere: undefined,
  move: undefined,
  stays: undefined,
};

describe('with an etcd of its own', () => {
  const has = { template: own, datastore: 'own' } as const;
  const held = { jobs: { held: { kind: 'version-change', generation: 2, why: 'It did not start.' } } };

  it.each([
    ['VersionDowngrade', { version: '1.36.1' }],
    ['VersionDowngrade', { version: '1.35' }],
    ['VersionDowngrade', { template: 'v1-35' }],
    ['VersionSkipped', { version: '1.38' }],
    ['VersionSkipped', { template: 'v1-38' }],
    ['UnsupportedVersion', { version: '1.39' }],
  ])('a refusal with %s leaves it there: %j', (reason, spec) => {
    const templates = withTemplates(like('v1-36', 'v1-38', { kubernetesVersion: '1.38.0' }));
    expect(look(spec, has, { templates })).toEqual({ ...stays, reason });
  });

  it('a version change that went back leaves it there', () => {
    const templates = withTemplates(like(own, 'v1-37-own-etcd', { kubernetesVersion: '1.37.0' }));
    const status = { ...has, ...held } as Parameters<typeof look>[1];
    expect(look({ template: 'v1-37-own-etcd' }, status, { templates })).toEqual({
      ...stays,
      reason: 'RolledBack',
    });
  });

  it('a template that was edited in place, to a version that is refused, leaves it there', () => {
    const templates = withTemplates(
      like(own, own, { kubernetesVersion: '1.38.0' }),
      like(own, 'another-own-etcd'),
    );
    expect(look({ template: own }, has, { templates })).toEqual({
      ...stays,
      template: 'another-own-etcd',
      reason: 'VersionSkipped',
    });
  });

  it('does nothing where all of its version that is left is another datastore', () => {
    const templates = withTemplates(like(own, own, { kubernetesVersion: '1.38.0' }));
    expect(() => look({ template: own }, has, { templates })).toThrow(
      expect.objectContaining({ code: 'DatastoreChanged' }),
    );
  });

  it('stays there when the spec names no template, or none any more', () => {
    expect(look({}, has)).toMatchObject(stays);
    expect(look({ version: '1.36' }, has)).toMatchObject(stays);
    const templates = withTemplates(like('v1-36', own), like(own, 'another-own-etcd'));
    expect(look({}, has, { templates })).toMatchObject({ ...stays, template: 'another-own-etcd' });
  });

  it('goes to the datastore of the template that the spec names', () => {
    const goes = { template: own, elsewhere: 'v1-36', move: 'shared', reason: undefined, stays: undefined };
    expect(look({ template: 'v1-36' }, has)).toMatchObject(goes);
  });

  it.each([
    ['UnsupportedVersion', '1.35', has],
    ['UnsupportedVersion', '1.38', has],
    ['VersionDowngrade', '1.36.1', has],
    ['RolledBack', '1.36.9', { ...has, ...held }],
    ['DatastoreChanged', '1.36.9', has],
  ])('stays beside a version that is refused, with %s, and says so of both', (reason, version, status) => {
    expect(look({ template: 'v1-36', version }, status as typeof has)).toEqual({
      ...{ template: own, version: '1.36.3', elsewhere: 'v1-36', move: 'shared' },
      ...{ reason, stays: reason },
    });
  });

  it('keeps to the templates that the policy allows when its own is gone and the spec names another datastore', () => {
    const templates = withTemplates(
      like(own, own, { kubernetesVersion: '1.38.0' }),
      like(own, 'big'),
      like(own, 'small'),
    );
    const goes = (allowed?: string[]) => look({ template: 'v1-36' }, has, { templates, allowed });
    expect(goes().template).toBe('big');
    expect(goes(['v1-36', 'small']).template).toBe('small');
    expect(() => goes(['v1-36'])).toThrow(expect.objectContaining({ code: 'TemplateNotAllowed' }));
  });

  it.each([
    ['preparing', true],
    ['copying', false],
    ['returning', false],
  ] as const)('the same while it moves, as long as it runs: %s', (stage, isRefused) => {
    const templates = withTemplates(like(own, own, { kubernetesVersion: '1.38.0' }), like(own, 'big'));
    const place = { driver: 'process', template: own } as const;
    const move = {
      ...{ stage, startedAt: '' },
      from: { ...place, datastore: 'own' },
      to: { ...place, datastore: 'shared' },
    } as const;
    const moves = (allowed: string[]) =>
      look({ template: 'v1-36' }, { ...has, move }, { templates, allowed });
    expect(moves(['v1-36', 'big']).template).toBe('big');
    if (isRefused)
      expect(() => moves(['v1-36'])).toThrow(expect.objectContaining({ code: 'TemplateNotAllowed' }));
    else expect(moves(['v1-36']).template).toBe('big');
  });
});

describe('without a template in the spec', () => {
  it('keeps the one that a policy gave it when the policy names none any more', () => {
    const templates = withTemplates(like('v1-36', 'small'));
    expect(look({}, { template: 'small' }, { templates })).toMatchObject({ ...stays, template: 'small' });
    expect(look({ version: '1.36' }, { template: 'small' }, { templates }).template).toBe('v1-36');
  });

  it('takes only one that the policy allows in place of one that is gone', () => {
    const templates = withTemplates(like('v1-36', 'small'));
    const allowed = ['v1-35', 'small'];
    expect(look({}, { template: 'gone' }, { templates, allowed }).template).toBe('small');
    expect(() => look({}, { template: 'gone' }, { allowed })).toThrow(
      expect.objectContaining({ code: 'TemplateNotAllowed' }),
    );
  });
});
