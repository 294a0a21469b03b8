import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type KubeObject, type Resource, resource, resources } from '../../kube/index.ts';
import type { OperatorSettings } from './settings.ts';
import { condition, fastPace, type RunningOperator, World } from './testing/world.ts';

const clusterRoles = resource('rbac.authorization.k8s.io', 'v1', 'clusterroles', 'ClusterRole', false);
const inKubeSystem = (name: string): { namespace: string; name: string } => ({
  namespace: 'kube-system',
  name,
});

describe('DNS of a tenant', () => {
  let world: World;
  beforeEach(async () => {
    world = await World.start(fastPace(10));
  });
  afterEach(() => world.end());

  const run = (settings: Partial<OperatorSettings> = {}): RunningOperator =>
    world.run({
      settings: {
        advertiseAddress: '192.0.2.1',
        etcdEndpoint: 'https://127.0.0.1:2379',
        dns: 'coredns',
        // The shortest that there is: tenants are looked at, not watched.
        recheckMs: 1_000,
        ...settings,
      },
    });
  const found = (what: Resource, name: string): KubeObject | undefined =>
    world.tenant.get(what, what.namespaced ? inKubeSystem(name) : { name });
  const all = (): (KubeObject | undefined)[] => [
    found(resources.services, 'kube-dns'),
    found(resources.serviceAccounts, 'coredns'),
    found(clusterRoles, 'system:coredns'),
    found(resources.clusterRoleBindings, 'system:coredns'),
    found(resources.configMaps, 'coredns'),
    found(resources.deployments, 'coredns'),
  ];
  const available = (): void => {
    const deployment = found(resources.deployments, 'coredns');
    world.tenant.put(resources.deployments, {
      ...(deployment as KubeObject),
      status: { availableReplicas: 1 },
    });
  };

  it('is there before anybody is given credentials', async () => {
    let credentials: (KubeObject | undefined)[] | undefined;
    run();
    world.create('a');
    await world.tenant.until(() => {
      if (found(resources.services, 'kube-dns') === undefined) return false;
      credentials ??= [
        world.superCluster.get(resources.secrets, { namespace: 'team', name: 'a-kubeconfig' }),
        world.secretOf('a', 'syncer'),
      ];
      return true;
    });
    expect(credentials).toEqual([undefined, undefined]);
    await world.untilReady('a');
    expect(all()).not.toContain(undefined);
    expect(found(resources.services, 'kube-dns')).toMatchObject({ spec: { clusterIP: '10.112.0.10' } });
  });

  it('is told in a condition that Ready does not wait for', async () => {
    run();
    world.create('a');
    const ready = await world.untilReady('a');
    expect(condition(ready, 'DNSReady')).toMatchObject({ status: 'False', reason: 'Starting' });
    available();
    await world.untilReason('a', 'DNSReady', 'Available');
  });

  it('says what keeps its pods from running', async () => {
    run();
    world.create('a');
    await world.untilReady('a');
    const state = { waiting: { reason: 'ErrImagePull', message: 'no such image' } };
    world.tenant.put(resources.pods, {
      metadata: { ...inKubeSystem('coredns-x'), labels: { 'k8s-app': 'kube-dns' } },
      status: { containerStatuses: [{ state }] },
    });
    await world.until(
      'a',
      (vc) => condition(vc, 'DNSReady')?.message?.endsWith('ErrImagePull: no such image') === true,
    );
  });

  it('repeats no more of what its pods say than a condition can hold', async () => {
    run();
    world.create('a');
    await world.untilReady('a');
    const state = { waiting: { reason: 'Loud', message: `\u001b[2J${'x'.repeat(100_000)}` } };
    world.tenant.put(resources.pods, {
      metadata: { ...inKubeSystem('coredns-x'), labels: { 'k8s-app': 'kube-dns' } },
      status: { containerStatuses: [{ state }] },
    });
    const told = await world.until(
      'a',
      (vc) => condition(vc, 'DNSReady')?.message?.includes('Loud') === true,
    );
    const message = condition(told, 'DNSReady')?.message ?? '';
    expect(message).toMatch(/: Loud: \?\[2Jx+\.\.\.$/);
    expect(message.length).toBeLessThan(1_000);
  });

  it('follows the spec rather than the manager', async () => {
    run({ dns: 'none' });
    world.create('a', { dns: 'coredns' });
    await world.untilReady('a');
    expect(all()).not.toContain(undefined);
  });

  it('is not installed where nobody asks for it', async () => {
    run({ dns: 'none' });
    world.create('a');
    expect(condition(await world.untilReady('a'), 'DNSReady')).toBeUndefined();
    expect(all().every((object) => object === undefined)).toBe(true);
  });

  it('is what the manager chose when the tenant was made, whatever it chooses later', async () => {
    const first = run({ dns: 'none' });
    world.create('a');
    await world.untilReady('a');
    await first.stop();
    run({ dns: 'coredns' });
    world.edit('a', { extraNames: ['api.example.org'] });
    await world.until('a', ({ status }) => status?.observedGeneration === 2);
    expect(found(resources.services, 'kube-dns')).toBeUndefined();
  });

  it('stays when the manager stops installing it for new ones', async () => {
    const first = run();
    world.create('a');
    await world.untilReady('a');
    await first.stop();
    run({ dns: 'none' });
    world.edit('a', { extraNames: ['api.example.org'] });
    await world.until('a', ({ status }) => status?.observedGeneration === 2);
    expect(all()).not.toContain(undefined);
  });

  it('is put back when the tenant deletes it, but for what the tenant changed in it', async () => {
    run();
    world.create('a');
    await world.untilReady('a');
    const edited = { ...(found(resources.configMaps, 'coredns') as KubeObject), data: { Corefile: 'mine' } };
    world.tenant.put(resources.configMaps, edited);
    const deployment = found(resources.deployments, 'coredns') as KubeObject & { spec: object };
    world.tenant.put(resources.deployments, { ...deployment, spec: { ...deployment.spec, replicas: 3 } });
    world.tenant.remove(resources.services, inKubeSystem('kube-dns'));
    world.tenant.remove(clusterRoles, { name: 'system:coredns' });
    await world.tenant.until(() => !all().includes(undefined));
    expect(found(resources.configMaps, 'coredns')).toMatchObject({ data: { Corefile: 'mine' } });
    expect(found(resources.deployments, 'coredns')).toMatchObject({ spec: { replicas: 3 } });
  });

  it('is brought up to date when the template changes, and its Corefile is not', async () => {
    run();
    world.create('a');
    await world.untilReady('a');
    const edited = { ...(found(resources.configMaps, 'coredns') as KubeObject), data: { Corefile: 'mine' } };
    world.tenant.put(resources.configMaps, edited);
    const template = world.superCluster.get(resources.controlPlaneTemplates, {
      name: 'v1-36',
    }) as KubeObject & {
      spec: { addons: { coredns: string } };
    };
    const coredns = template.spec.addons.coredns
      .replace(/image: .*/, 'image: mirror.example/coredns:v9')
      .replace('cache 30', 'cache 60');
    world.superCluster.put(resources.controlPlaneTemplates, {
      ...template,
      spec: { ...template.spec, addons: { coredns } },
    });
    const image = (): string | undefined => {
      const { spec } = found(resources.deployments, 'coredns') as unknown as {
        spec: { template: { spec: { containers: { image: string }[] } } };
      };
      return spec.template.spec.containers[0]?.image;
    };
    await world.tenant.until(() => image() === 'mirror.example/coredns:v9');
    expect(found(resources.configMaps, 'coredns')).toMatchObject({ data: { Corefile: 'mine' } });
  });

  it('goes when it is not wanted any more, and takes nothing else with it', async () => {
    run();
    world.create('a');
    await world.untilReady('a');
    world.tenant.put(resources.configMaps, { metadata: inKubeSystem('theirs') });
    const { labels: _none, ...metadata } = (found(resources.serviceAccounts, 'coredns') as KubeObject)
      .metadata;
    world.tenant.put(resources.serviceAccounts, { metadata });
    world.edit('a', { dns: 'none' });
    await world.until('a', (vc) => condition(vc, 'DNSReady') === undefined);
    expect(all().filter((object) => object !== undefined)).toEqual([
      found(resources.serviceAccounts, 'coredns'),
    ]);
    expect(found(resources.configMaps, 'theirs')).toBeDefined();
  });

  it('leaves a server alone that the tenant has brought, and says so', async () => {
    world.tenant.put(resources.services, {
      metadata: inKubeSystem('kube-dns'),
      spec: { clusterIP: '10.112.0.77' },
    });
    run();
    world.create('a');
    const vc = await world.untilReady('a');
    expect(condition(vc, 'DNSReady')).toMatchObject({
      status: 'False',
      reason: 'AddonNotOurs',
      message: expect.stringMatching(/Service kube-system\/kube-dns.*spec\.dns to none/),
    });
    expect(found(resources.services, 'kube-dns')).toMatchObject({ spec: { clusterIP: '10.112.0.77' } });
    expect(found(resources.deployments, 'coredns')).toBeUndefined();
  });

  it('that the tenant makes impossible is no fault of the control plane', async () => {
    run();
    world.create('a');
    await world.untilReady('a');
    const template = world.superCluster.get(resources.controlPlaneTemplates, {
      name: 'v1-36',
    }) as KubeObject & {
      spec: object;
    };
    world.superCluster.put(resources.controlPlaneTemplates, {
      ...template,
      spec: { ...template.spec, addons: {} },
    });
    const vc = await world.untilReason('a', 'DNSReady', 'NoAddon');
    expect(vc.status?.phase).toBe('Ready');
  });

  it('writes nothing when nothing has changed', async () => {
    const first = run();
    world.create('a');
    await world.untilReady('a');
    available();
    await world.untilReason('a', 'DNSReady', 'Available');
    await first.stop();
    const before = world.tenant.requests.length;
    run();
    const since = () => world.tenant.requests.slice(before);
    await world.tenant.until(() => since().some(({ name }) => name === 'system:coredns'));
    await world.superCluster.until(() => since().length >= 12);
    expect(since().filter(({ method }) => method !== 'GET')).toEqual([]);
  });
});
