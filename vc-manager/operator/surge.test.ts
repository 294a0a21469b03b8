import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isFetching } from '../../api/conditions.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { parseKubeconfig, resources } from '../../kube/index.ts';
import type { ControlPlanePlan } from '../control-plane/plan.ts';
import type { EnsureOptions } from '../drivers/driver.ts';
import { keepsExiting, portInUse } from '../drivers/errors.ts';
import { condition, World } from './testing/world.ts';

const gateway = { domain: 'tenants.example.com', host: '192.0.2.20', port: 443 };
const settings = (more: object = {}) =>
  ({
    settings: { advertiseAddress: '192.0.2.10', etcdEndpoint: 'https://127.0.0.1:1', gateway, ...more },
  }) as never;

describe('the API server of a tenant behind a gateway', () => {
  let world: World;
  let plans: ControlPlanePlan[];
  beforeEach(async () => {
    world = await World.start();
    plans = [];
  });
  afterEach(() => world.end());

  const portOf = (plan: ControlPlanePlan | undefined): number | undefined =>
    plan?.components[0]?.ports[0]?.port;
  const renew = (value: string): void => {
    const vc = world.get('a');
    world.superCluster.put(resources.virtualClusters, {
      ...vc,
      metadata: {
        ...vc?.metadata,
        annotations: { ...vc?.metadata.annotations, 'skerry.dev/renew-certificates': value },
      },
    } as never);
  };
  const renewed = (value: string) =>
    world.until('a', ({ status }) => status?.jobs?.renewed === value && status.jobs.current === undefined);
  const syncersServer = (): unknown => {
    const { data } = world.secretOf('a', 'syncer') as { data?: Record<string, string> };
    const text = Buffer.from(data?.['kubeconfig'] ?? '', 'base64').toString();
    return parseKubeconfig(text).clusters[0]?.cluster.server;
  };
  const endpointsPort = (): number | undefined => {
    const ref = { namespace: 'default', name: 'kubernetes' };
    const { subsets } = world.tenant.get(resources.endpoints, ref) as {
      subsets?: { ports: { port: number }[] }[];
    };
    return subsets?.[0]?.ports[0]?.port;
  };

  /** As a driver does for which the API server has changed. */
  async function replace(_plan: ControlPlanePlan, { surge }: EnsureOptions): Promise<void> {
    if (surge === undefined) return;
    plans.push(await surge.plan());
    await surge.handOver();
  }

  it('is replaced by one at another port; gateway, pods and syncer know it before the earlier one ends', async () => {
    world.run(settings());
    world.create('a');
    const before = (await world.untilReady('a')).status?.advertisedPort;
    const seen: unknown[] = [];
    world.driver.beforeEnsure = async (plan, options) => {
      await replace(plan, options);
      const { endpoint, advertisedPort, replacementPort } = world.get('a')?.status ?? {};
      seen.push([endpoint, advertisedPort, replacementPort, syncersServer(), endpointsPort()]);
    };
    renew('once');
    const { status } = await renewed('once');
    const port = portOf(plans[0]);
    expect(port).not.toBe(before);
    const server = `https://127.0.0.1:${port}`;
    expect(seen[0]).toEqual([server, port, undefined, server, port]);
    expect(status).toMatchObject({ endpoint: server, advertisedPort: port });
    // Its kubeconfig names the gateway.
    expect(status?.gateway?.server).toContain('192.0.2.20');
  });

  it('is replaced unseen by pods that go through the gateway', async () => {
    const ports = { first: 23_000, last: 23_999 };
    world.run(settings({ gateway: { ...gateway, ports, podAddress: '192.0.2.30' } }));
    world.create('a');
    const before = (await world.untilReady('a')).status;
    const seen = [endpointsPort()];
    world.driver.beforeEnsure = async (plan, options) => {
      await replace(plan, options);
      seen.push(endpointsPort());
    };
    renew('one');
    const { status } = await renewed('one');
    expect(status?.advertisedPort).not.toBe(before?.advertisedPort);
    expect(new Set([...seen, endpointsPort()])).toEqual(new Set([before?.gateway?.port]));
  });

  it('keeps the port that is written down when its manager is killed, and gives it to nobody else', async () => {
    const first = world.run(settings());
    world.create('a');
    await world.untilReady('a');
    world.driver.beforeEnsure = async (plan, { surge }) => {
      if (surge === undefined) return;
      plans.push(await surge.plan());
      throw keepsExiting({ id: plan.id, component: 'kube-apiserver' }, 5, 'exit code 1', []);
    };
    renew('once');
    const { status } = await world.until('a', (vc) => vc.status?.jobs?.current?.failing === true);
    const next = status?.replacementPort;
    expect(next).toBe(portOf(plans[0]));
    expect(status?.advertisedPort).not.toBe(next);
    await first.stop();
    world.driver.beforeEnsure = replace;
    plans = [];
    world.run(settings());
    world.create('b');
    const b = await world.untilReady('b');
    const a = await renewed('once');
    expect(a.status?.advertisedPort).toBe(next);
    expect(a.status?.replacementPort).toBeUndefined();
    expect(b.status?.advertisedPort).not.toBe(next);
  });

  it('takes another port when a program has the one that was chosen', async () => {
    world.run(settings());
    world.create('a');
    await world.untilReady('a');
    world.driver.beforeEnsure = async (plan, options) => {
      if (options.surge === undefined) return;
      plans.push(await options.surge.plan());
      const where = { id: plan.id, component: 'kube-apiserver' };
      if (plans.length === 1) throw portInUse(where, portOf(plans[0]) ?? 0, undefined);
      await options.surge.handOver();
    };
    renew('once');
    const { status } = await renewed('once');
    expect(portOf(plans[1])).not.toBe(portOf(plans[0]));
    expect(status?.advertisedPort).toBe(portOf(plans[1]));
    expect(status?.jobs?.history?.[0]).toMatchObject({ kind: 'renewal', attempts: 1 });
  });

  it('stays Ready while another version starts', async () => {
    world.run(settings());
    world.create('a', { version: '1.35.4' });
    await world.untilReady('a');
    const ready: unknown[] = [];
    world.driver.beforeEnsure = async (plan, options) => {
      const { conditions } = world.get('a')?.status ?? {};
      if (options.surge !== undefined) ready.push(conditions?.find(({ type }) => type === 'Ready')?.status);
      await replace(plan, options);
    };
    world.edit('a', { version: '1.36.3' });
    await world.until('a', (vc) => vc.status?.phase === 'Ready' && vc.status.version === '1.36.3');
    expect(ready[0]).toBe('True');
  });

  it('says in its job that programs of another version are built first, and then that they start', async () => {
    world.run(settings());
    world.create('a', { version: '1.35.4' });
    await world.untilReady('a');
    const [built, started] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    world.driver.beforeEnsure = async (plan, options) => {
      if (options.surge === undefined) return;
      options.onFetch?.('31 %, about 4 min left: building kube-apiserver 1.36.3');
      await built.promise;
      options.onProgress?.('starting kube-apiserver');
      await started.promise;
      await replace(plan, options);
    };
    world.edit('a', { version: '1.36.3' });
    const message = (vc: VirtualCluster) => vc.status?.jobs?.current?.message;
    const building = await world.until('a', (vc) => message(vc)?.includes('about 4 min left') === true);
    expect(isFetching(building)).toBe(true);
    expect(condition(building, 'Ready')?.status).toBe('True');
    built.resolve();
    expect(isFetching(await world.until('a', (vc) => message(vc) === 'starting kube-apiserver'))).toBe(false);
    started.resolve();
    await world.until('a', (vc) => vc.status?.phase === 'Ready' && vc.status.version === '1.36.3');
    expect(world.get('a')?.status?.jobs?.history?.[0]).not.toHaveProperty('message');
  });

  it('is replaced at its own address without a gateway, whose kubeconfigs name its port', async () => {
    world.run(settings({ gateway: undefined }));
    world.create('a');
    await world.untilReady('a');
    const asked: unknown[] = [];
    world.driver.beforeEnsure = (_plan, { surge }) => void asked.push(surge);
    renew('once');
    await renewed('once');
    expect(new Set(asked)).toEqual(new Set([undefined]));
  });
});
