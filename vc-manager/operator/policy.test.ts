import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { VirtualClusterPolicySpec } from '../../api/policy.ts';
import { resources } from '../../kube/index.ts';
import { condition, World } from './testing/world.ts';

describe('a VirtualClusterPolicy', () => {
  let world: World;
  beforeEach(async () => {
    world = await World.start();
  });
  afterEach(() => world.end());

  const put = (name: string, spec: Partial<VirtualClusterPolicySpec>): void => {
    world.superCluster.put(resources.virtualClusterPolicies, {
      metadata: { name },
      spec: { namespaces: ['team'], ...spec },
    });
  };

  it('is not needed: then the defaults limit, and say so', async () => {
    world.run();
    world.create('a', { policy: { podSecurity: 'privileged' } });
    const vc = await world.untilReady('a');
    expect(vc.status?.policy).toMatchObject({ podSecurity: 'baseline', daemonSets: 'deny' });
    expect(vc.status?.policy).not.toHaveProperty('ceiling');
    expect(condition(vc, 'PolicyLimited')).toMatchObject({
      status: 'True',
      message: expect.stringMatching(
        /No VirtualClusterPolicy.* team.*podSecurity is baseline, not privileged/,
      ),
    });
  });

  it('is applied however much is asked for: what was cut is told as far as a condition can hold it', async () => {
    put('gold', { podSecurity: 'privileged' });
    world.run();
    const label = 'x'.repeat(60);
    const ingressHosts = Array.from(
      { length: 256 },
      (_item, i) => `a${i}.${label}.${label}.${label}.${label}`,
    );
    world.create('a', { policy: { podSecurity: 'privileged', ingressHosts } });
    const vc = await world.until('a', ({ status }) => status?.policy?.podSecurity === 'privileged');
    // The server would refuse the status as a whole, with the policy in it: then nothing could be tightened any more.
    expect(condition(vc, 'PolicyLimited')?.message?.length).toBeLessThan(32_768);
  });

  it('limits those of its namespaces, and those only', async () => {
    put('gold', { podSecurity: 'privileged', daemonSets: 'allow' });
    world.run();
    const policy = { podSecurity: 'privileged', daemonSets: 'allow' } as const;
    world.create('a', { policy });
    world.create('b', { policy }, { namespace: 'other' });
    const mine = await world.untilReady('a');
    expect(mine.status?.policy).toMatchObject({ ...policy, ceiling: 'gold' });
    expect(condition(mine, 'PolicyLimited')).toBeUndefined();
    await world.superCluster.until(() => {
      const other = world.superCluster.get(resources.virtualClusters, { namespace: 'other', name: 'b' });
      return (other as typeof mine | undefined)?.status?.policy?.podSecurity === 'baseline';
    });
  });

  it('that is made, changed or removed is applied to all at once', async () => {
    world.run();
    world.create('a', { policy: { podSecurity: 'privileged' } });
    await world.untilReady('a');
    put('gold', { podSecurity: 'privileged' });
    const granted = await world.until('a', ({ status }) => status?.policy?.podSecurity === 'privileged');
    expect(condition(granted, 'PolicyLimited')).toMatchObject({ status: 'False', reason: 'AsAsked' });
    put('gold', { podSecurity: 'restricted' });
    const tightened = await world.until('a', ({ status }) => status?.policy?.podSecurity === 'restricted');
    expect(condition(tightened, 'PolicyLimited')?.message).toContain('VirtualClusterPolicy gold limits');
    world.superCluster.remove(resources.virtualClusterPolicies, { name: 'gold' });
    await world.until('a', ({ status }) => status?.policy?.podSecurity === 'baseline');
  });

  it('that is tightened is not kept waiting by a control plane that does not come up', async () => {
    put('gold', { podSecurity: 'privileged' });
    world.run();
    world.create('a', { policy: { podSecurity: 'privileged' } });
    const { status } = await world.untilReady('a');
    world.driver.beforeEnsure = (_plan, { signal }) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason), { once: true });
      });
    world.driver.kill(status?.id ?? '', 'kube-apiserver');
    await world.untilReason('a', 'Ready', 'Restarting');
    put('gold', { podSecurity: 'restricted' });
    await world.until('a', (vc) => vc.status?.policy?.podSecurity === 'restricted');
  });

  it('forces nodes and a runtime class; a tenant may ask for a runtime class that is published', async () => {
    world.superCluster.put(resources.runtimeClasses, {
      metadata: { name: 'gvisor', labels: { 'skerry.dev/public': 'true' } },
    });
    world.run();
    world.create('a', { policy: { runtimeClassName: 'gvisor' } });
    expect((await world.untilReady('a')).status?.policy?.runtimeClassName).toBe('gvisor');
    put('gold', { runtimeClassName: 'kata', hideNodes: true, nodeSelector: { pool: 'gold' } });
    const vc = await world.until('a', ({ status }) => status?.policy?.ceiling === 'gold');
    expect(vc.status?.policy).toMatchObject({
      runtimeClassName: 'kata',
      hideNodes: true,
      nodeSelector: { pool: 'gold' },
    });
  });

  describe('with maxVirtualClusters', () => {
    it('keeps one too many waiting, until another is gone', async () => {
      put('gold', { maxVirtualClusters: 1 });
      world.run();
      world.create('a');
      await world.untilReady('a');
      world.create('b');
      const waiting = await world.untilReason('b', 'Ready', 'TooManyVirtualClusters');
      expect(waiting.status?.phase).toBe('Pending');
      expect(waiting.status?.id).toBeUndefined();
      expect(condition(waiting, 'Ready')?.message).toContain('allows no more than 1 in the namespace team');
      await world.delete('a');
      await world.untilReady('b');
    });

    it('lets no more in than it says when many come at once', async () => {
      put('gold', { maxVirtualClusters: 2 });
      world.run();
      const names = ['a', 'b', 'c', 'd'];
      for (const name of names) world.create(name);
      const settled = (name: string): boolean =>
        ['Ready', 'Pending'].includes(world.get(name)?.status?.phase ?? '');
      await world.superCluster.until(
        () =>
          names.every(settled) &&
          names.filter((name) =>
            world.get(name)?.status?.conditions?.some(({ reason }) => reason === 'TooManyVirtualClusters'),
          ).length === 2,
      );
      expect(names.filter((name) => world.get(name)?.status?.id !== undefined)).toHaveLength(2);
    });

    it('lets those in that wait when it allows more, and leaves those alone that are in', async () => {
      put('gold', { maxVirtualClusters: 1 });
      world.run();
      world.create('a');
      await world.untilReady('a');
      world.create('b');
      await world.untilReason('b', 'Ready', 'TooManyVirtualClusters');
      put('gold', { maxVirtualClusters: 2 });
      await world.untilReady('b');
      put('gold', { maxVirtualClusters: 0 });
      world.create('c');
      await world.untilReason('c', 'Ready', 'TooManyVirtualClusters');
      world.edit('a', { extraNames: ['api.example.org'] });
      await world.until('a', ({ status }) => status?.observedGeneration === 2 && status.phase === 'Ready');
    });

    it('counts in each namespace by itself', async () => {
      put('gold', { namespaces: ['*'], maxVirtualClusters: 1 });
      world.run();
      world.create('a', {}, { namespace: 'other' });
      world.create('a');
      await world.untilReady('a');
      await world.superCluster.until(() => {
        const other = world.superCluster.get(resources.virtualClusters, { namespace: 'other', name: 'a' });
        return (other as ReturnType<World['get']>)?.status?.phase === 'Ready';
      });
    });
  });

  describe('with templates', () => {
    /** Of the newest minor version, beside the packaged one. */
    const runWithVariant = async (name: string): Promise<void> => {
      const packaged = () => world.superCluster.get(resources.controlPlaneTemplates, { name: 'v1-36' });
      world.run();
      await world.superCluster.until(() => packaged() !== undefined);
      world.superCluster.put(resources.controlPlaneTemplates, { ...packaged(), metadata: { name } });
    };

    it('refuses others, and says which there are', async () => {
      put('gold', { templates: ['v1-35', 'v1-34'] });
      world.run();
      world.create('a', { template: 'v1-36' });
      const failed = await world.untilReason('a', 'Ready', 'TemplateNotAllowed');
      expect(failed.status?.phase).toBe('Failed');
      expect(condition(failed, 'Ready')?.message).toMatch(
        /gold does not allow the template v1-36.*v1-35, v1-34/,
      );
      expect(world.driver.ensured).toEqual([]);
    });

    it('refuses a version whose template it does not name', async () => {
      put('gold', { templates: ['v1-35'] });
      world.run();
      world.create('a', { version: '1.36' });
      const failed = await world.untilReason('a', 'Ready', 'TemplateNotAllowed');
      expect(condition(failed, 'Ready')?.message).toContain('the template v1-36');
    });

    it('gives its first one to those that name none', async () => {
      put('gold', { templates: ['v1-35', 'v1-36'] });
      world.run();
      world.create('a');
      expect((await world.untilReady('a')).status?.version).toBe('1.35.4');
    });

    it('leaves those that name none with the one that it gave them', async () => {
      put('gold', { templates: ['small', 'v1-36'] });
      await runWithVariant('small');
      world.create('a');
      expect((await world.untilReady('a')).status?.template).toBe('small');
      put('gold', { templates: ['v1-36', 'small'] });
      world.edit('a', { weight: 2 });
      const vc = await world.until('a', ({ status }) => status?.observedGeneration === 2);
      expect(vc.status).toMatchObject({ phase: 'Ready', template: 'small' });
    });

    it('holds those that run to them, whatever they name later', async () => {
      put('gold', { templates: ['v1-36'] });
      await runWithVariant('large');
      world.create('a');
      await world.untilReady('a');
      world.edit('a', { template: 'large' });
      const vc = await world.untilReason('a', 'VersionCurrent', 'TemplateNotAllowed');
      expect(condition(vc, 'VersionCurrent')?.message).toMatch(/gold does not allow the template large/);
      expect((await world.untilReady('a')).status?.template).toBe('v1-36');
      put('gold', { templates: ['v1-36', 'large'] });
      await world.until('a', ({ status }) => status?.template === 'large' && status.phase === 'Ready');
    });

    it('lets one run on that was made from another before', async () => {
      world.run();
      world.create('a');
      await world.untilReady('a');
      put('gold', { templates: ['v1-35'] });
      const vc = await world.until('a', ({ status }) => status?.policy?.ceiling === 'gold');
      expect(vc.status).toMatchObject({ phase: 'Ready', version: '1.36.3' });
    });
  });
});

describe('a version', () => {
  let world: World;
  beforeEach(async () => {
    world = await World.start();
    world.superVersion = 'v1.34.1-vendor.7';
  });
  afterEach(() => world.end());

  it('may be one minor above the super cluster', async () => {
    world.run();
    world.create('a', { version: '1.35' });
    expect((await world.untilReady('a')).status?.version).toBe('1.35.4');
  });

  it('may not be further above it, until the super cluster is upgraded', async () => {
    world.run();
    world.create('a', { version: '1.36' });
    const failed = await world.untilReason('a', 'Ready', 'VersionTooNew');
    expect(failed.status?.phase).toBe('Failed');
    expect(condition(failed, 'Ready')?.message).toMatch(/above the super cluster's 1\.34\.1.*Ask for 1\.35/);
    world.superVersion = 'v1.35.0';
    await world.untilReady('a');
  });

  it('that runs already goes on, with a word about it', async () => {
    world.superVersion = 'v1.35.0';
    const first = world.run();
    world.create('a', { version: '1.36' });
    await world.untilReady('a');
    await first.stop();
    world.superVersion = 'v1.34.0';
    world.run();
    const vc = await world.until(
      'a',
      (each) => condition(each, 'Ready')?.message?.includes('too new') === true,
    );
    expect(vc.status?.phase).toBe('Ready');
  });
});
