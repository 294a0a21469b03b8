import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { isPaused, type VirtualCluster } from '../api/virtual-cluster.ts';
import { connectionFromSecret, type KubeObject, resources } from '../kube/index.ts';
import { itInTestAll } from '../kube/testing/broad.ts';
import { scriptRunBy } from '../scripts/docs-commands.ts';
import { at } from './harness/checker/view.ts';
import { configMap, deployment, namespace, secret } from './harness/manifests.ts';
import { heldRequestMs, patienceMs } from './harness/poll.ts';
import { kill } from './harness/processes.ts';
import { pageOf, Reader } from './harness/reader.ts';
import { expectAllServed, SteadyWriter, whileAsked } from './harness/steady-load.ts';
import { type Tenant, World } from './harness/world.ts';

const name = 'mover';

describe('a tenant that is moved', () => {
  let world: World;
  let tenant: Tenant;
  let before: string[];
  let reader: Reader;
  /** What docs/move.md says, line by line. */
  let documented: string[];

  beforeAll(async () => {
    world = new World(inject('stack'));
    reader = Reader.of(world);
    documented = scriptRunBy(pageOf('docs/move.md'), 'test/move.test.ts', 'vc-manager move', {
      'team-blue': name,
    }).split('\n');
    tenant = await world.createTenant(name);
    await tenant.apply(namespace('shop'), deployment('shop', 'web', 3));
    await tenant.apply(configMap('shop', 'settings', { colour: 'blue' }));
    await tenant.apply(secret('shop', 'password', { word: 'swordfish' }));
    await untilRunning();
    before = await superPods();
  });
  afterAll(() => world?.close());

  const untilRunning = (): Promise<KubeObject[]> =>
    tenant.until({ resource: resources.pods, namespace: 'shop', what: 'three pods to run' }, (pods) => {
      const running = pods.filter(({ status }) => at(status, 'phase') === 'Running');
      return running.length === 3 && pods.length === 3 && running;
    });
  const superPods = async (): Promise<string[]> => {
    const labelSelector = `skerry.dev/tenant=${tenant.uid}`;
    const { items } = await world.superCluster.client.list(resources.pods, { labelSelector });
    return items.map(({ metadata }) => metadata.uid ?? '').sort();
  };
  const until = (what: string, is: (vc: VirtualCluster) => boolean): Promise<VirtualCluster> =>
    world.superCluster.until<VirtualCluster, VirtualCluster>(
      { resource: resources.virtualClusters, namespace: 'default', name, what },
      ([vc]) => vc !== undefined && is(vc) && vc,
    );
  const expectTheSame = async (): Promise<void> => {
    await untilRunning();
    const secrets = await tenant.client.get(resources.secrets, { namespace: 'shop', name: 'password' });
    expect(at(secrets, 'data', 'word')).toBe(Buffer.from('swordfish').toString('base64'));
    await tenant.client.patch(
      resources.configMaps,
      { namespace: 'shop', name: 'settings' },
      { data: { colour: 'green' } },
      { type: 'merge' },
    );
    expect(await superPods()).toEqual(before);
    // The syncer asks for a server that was away ever more rarely.
    await world.expectAgreement([tenant], patienceMs);
  };

  it('to an etcd of its own keeps address, credentials, data and pods, and says how long it was away', async () => {
    const { resourceVersion } = (await tenant.client.list(resources.configMaps)).metadata;
    const patience = { patienceMs: heldRequestMs };
    const writer = new SteadyWriter(connectionFromSecret(tenant.kubeconfig), patience);
    let said = '';
    const move = async (): Promise<void> => {
      const [dryRun, toOwn] = documented;
      ({ stdout: said } = await reader.run('docs/move.md', `${dryRun}\n${toOwn}`));
    };
    const client = await whileAsked(tenant.kubeconfig, 'moved to an etcd of its own', move, patience);
    const written = await writer.stop();
    console.log(`${said}\n${JSON.stringify(written)}`);
    const pausedSeconds = /paused for (\S+) s$/.exec(said)?.[1];
    expect(Number(pausedSeconds)).toBeGreaterThan(0);
    expectAllServed(client, 1);
    // What was acknowledged before the pause was copied; one write may be under way then.
    expect(written.lost).toEqual([]);
    expect(written.failures.length, written.failures.join('; ')).toBeLessThanOrEqual(1);
    await expectTheSame();
    // Clients that watch ask for what has changed since then: below it they would hear nothing.
    const now = (await tenant.client.list(resources.configMaps)).metadata.resourceVersion;
    expect(Number(now)).toBeGreaterThan(Number(resourceVersion));
    const there = await world.cli(['move', name, '--datastore', 'own']);
    expect(there.stderr).toMatch(/is at process\/own already/);
  });

  itInTestAll('is kept and put back in an etcd of its own, also while it is asleep', async () => {
    const cli = async (...args: string[]): Promise<string> => {
      const { exitCode, stdout, stderr } = await world.cli(args);
      expect(exitCode, stderr).toBe(0);
      return stdout.trim();
    };
    await cli('sleep', name, '--wait');
    const snapshot = await cli('snapshot', name, '--wait');
    await until('it to sleep on', ({ status }) => status?.sleep?.stopped === true);
    expect(await cli('wake', name, '--wait')).toBe(`${name} is awake`);
    await tenant.kubectl('delete', 'secret', 'password', '-n', 'shop');
    await cli('restore', name, '--from', snapshot, '--wait', '--yes');
    await expectTheSame();
  });

  itInTestAll('is there in the end although the manager is killed meanwhile', async () => {
    const moving = reader.run('docs/move.md', documented.slice(2).join('\n'));
    await until('the old control plane to be stopped', isPaused);
    await kill(await world.process('vc-manager'));
    const { status } = await until(
      'it to be ready at the new place',
      (vc) => vc.status?.phase === 'Ready' && vc.status.move === undefined,
    );
    expect(status).toMatchObject({ datastore: 'shared', moved: { to: { datastore: 'shared' } } });
    expect(status?.moved?.why).toBeUndefined();
    expect((await moving).stdout).toMatch(/mover +move +Succeeded/);
    await expectTheSame();
  });
});
