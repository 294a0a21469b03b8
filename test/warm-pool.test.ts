import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import type { VirtualCluster } from '../api/virtual-cluster.ts';
import { resources } from '../kube/index.ts';
import { at } from './harness/checker/view.ts';
import { createFromPool } from './harness/managers.ts';
import { namespace as namespaceOf, pod } from './harness/manifests.ts';
import { kill, processesOf } from './harness/processes.ts';
import { World } from './harness/world.ts';

const template = 'kept-warm';
const system = 'skerry-system';

describe('the warm pool', () => {
  let world: World;

  beforeAll(async () => {
    world = new World(inject('stack'));
    // One that other suites do not use.
    const { client } = world.superCluster;
    const packaged = await client.get(resources.controlPlaneTemplates, { name: 'v1-36' });
    const spec = { ...(packaged['spec'] as object), warm: 1 };
    await client.delete(resources.controlPlaneTemplates, { name: template }).catch(() => undefined);
    await client.create(resources.controlPlaneTemplates, { metadata: { name: template }, spec });
  });
  afterAll(async () => {
    const ref = { name: template };
    await world?.superCluster.client.delete(resources.controlPlaneTemplates, ref).catch(() => undefined);
    await world?.close();
  });

  const isMember = ({ spec }: VirtualCluster): boolean => spec?.template === template;
  /** One that waits, other than those of these ids. */
  const untilWaiting = (...others: (string | undefined)[]): Promise<VirtualCluster> =>
    world.superCluster.until<VirtualCluster, VirtualCluster>(
      { resource: resources.virtualClusters, namespace: system, what: 'a control plane that waits' },
      (all) =>
        all.find(
          (vc) =>
            isMember(vc) &&
            vc.status?.phase === 'Ready' &&
            vc.status.jobs?.current === undefined &&
            !others.includes(vc.status.id),
        ),
    );
  const untilNone = (id: string | undefined): Promise<unknown> =>
    world.superCluster.until<true, VirtualCluster>(
      { resource: resources.virtualClusters, namespace: system, what: `the member ${id} to go` },
      (all) => !all.some(({ status }) => status?.id === id) && true,
    );
  const processes = (id: string | undefined): number[] =>
    [...processesOf(world.stateDir)].filter(([, command]) => command.includes(`${id}/`)).map(([pid]) => pid);

  it('gives a new tenant a control plane that runs, which nobody could reach before, though the manager is killed meanwhile, and makes another one', async () => {
    const member = await untilWaiting();
    const { id } = member.status ?? {};
    const before = processes(id);
    expect(before).toHaveLength(2);
    const { stdout: listed } = await world.cli(['list']);
    expect(listed).not.toContain('warm-');
    expect((await world.cli(['list', '-n', system])).stdout).toContain(member.metadata.name);
    const secrets = await world.superCluster.client.list(resources.secrets, { namespace: system });
    expect(secrets.items.map(({ metadata }) => metadata.name)).not.toContain(`tenant-${id}-syncer`);

    const manager = await world.process('vc-manager');
    const tenant = await createFromPool(world, 'quick', ['--template', template], () => kill(manager));
    expect(tenant.id).toBe(id);
    // Nothing was started anew.
    expect(processes(id)).toEqual(before);
    expect((await world.cli(['describe', 'quick'])).stdout).toMatch(
      new RegExp(`From the pool: +${member.metadata.name}`),
    );
    await untilNone(id);
    await tenant.apply(namespaceOf('shop'), pod('shop', 'web'));
    await tenant.until({ resource: resources.pods, namespace: 'shop', what: 'its pod to run' }, (pods) =>
      pods.every(({ status }) => at(status, 'phase') === 'Running'),
    );
    await world.expectAgreement([tenant]);

    const next = await untilWaiting(id);
    await world.deleteTenant('quick');
    expect(processes(id)).toEqual([]);
    expect(processes(next.status?.id)).toHaveLength(2);
  });

  it('is emptied with its template, and leaves nothing', async () => {
    const { status } = await untilWaiting();
    await world.superCluster.client.delete(resources.controlPlaneTemplates, { name: template });
    await untilNone(status?.id);
    expect(processes(status?.id)).toEqual([]);
  });
});
