import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { resources } from '../../kube/index.ts';
import { at } from '../harness/checker/view.ts';
import { namespace, service, statefulSet } from '../harness/manifests.ts';
import { patienceMs, patiently } from '../harness/poll.ts';
import { type Tenant, World } from '../harness/world.ts';
import { idlePod, onNode, shellInPod, untilNamesResolve, untilReady, web, webPod } from './suite/pods.ts';

const ns = 'services';

describe('services', () => {
  let world: World;
  let tenant: Tenant;
  let other: Tenant;

  beforeAll(async () => {
    world = new World(inject('stack'));
    [tenant, other] = await world.joinTenants(ns);
    for (const each of [tenant, other]) await each.apply(namespace(ns), idlePod(ns, 'client'));
    await tenant.apply(
      // One on each node, and the client on one of them.
      ...['node-1', 'node-2'].map((node) => webPod(ns, `web-${node}`, onNode(node))),
    );
    for (const node of ['node-1', 'node-2']) {
      await tenant.kubectl('-n', ns, 'label', 'pod', `web-${node}`, 'app=web', '--overwrite');
    }
    await tenant.apply(service(ns, 'web'), service(ns, 'alone', { selector: { app: 'web' } }));
    await untilReady(tenant, ns, 'client', 'web-node-1', 'web-node-2');
    await untilReady(other, ns, 'client');
    for (const each of [tenant, other]) await untilNamesResolve(each, { namespace: ns, name: 'client' });
    await servedBy(tenant, 'web', 2);
  });

  afterAll(() => world?.close());

  const servedBy = (of: Tenant, name: string, ready: number): Promise<true> =>
    of.until<true>(
      {
        resource: resources.endpointSlices,
        namespace: ns,
        labelSelector: `kubernetes.io/service-name=${name}`,
        what: `${ready} ready endpoints of ${name}`,
      },
      (slices) =>
        slices
          .flatMap((slice) => at<{ conditions: { ready: boolean } }[]>(slice, 'endpoints') ?? [])
          .filter(({ conditions }) => conditions.ready).length === ready,
    );

  /** What answers at an address, as often as asked; rejects for the first request that fails. */
  const ask = (of: Tenant, url: string, times = 1): Promise<string> =>
    shellInPod(
      of,
      { namespace: ns, name: 'client' },
      `for i in $(seq 1 ${times}); do curl -sS -m 20 ${url} || exit; echo; done`,
    );
  /** What one question to the DNS server gives, sorted; rejects if that does not answer. */
  const lookUp = (of: Tenant, name: string, type = 'A'): Promise<string> =>
    shellInPod(
      of,
      { namespace: ns, name: 'client' },
      `answer=$(dig +short +search +tries=1 +time=20 ${name} ${type}) || exit; echo "$answer" | sort`,
    );

  it('are reached by address, on the own node and on the other one', async () => {
    const { spec } = await tenant.client.get(resources.services, { namespace: ns, name: 'web' });
    const address = (spec as { clusterIP: string }).clusterIP;
    // Nodes hear of endpoints in their own time.
    await expect
      .poll(async () => new Set((await ask(tenant, `http://${address}/hostname`, 40)).split('\n')))
      .toEqual(new Set(['web-node-1', 'web-node-2']));
    // From then on no request fails.
    expect(new Set((await ask(tenant, `http://${address}/hostname`, 40)).split('\n'))).toEqual(
      new Set(['web-node-1', 'web-node-2']),
    );
  });

  it('are reached by name: short, with the namespace, and in full', async () => {
    for (const name of ['web', `web.${ns}`, `web.${ns}.svc`, `web.${ns}.svc.cluster.local`]) {
      expect(await ask(tenant, `http://${name}/hostname`)).toMatch(/^web-node-\d$/);
    }
    const { spec } = await tenant.client.get(resources.services, { namespace: ns, name: 'web' });
    expect(await lookUp(tenant, 'web')).toBe((spec as { clusterIP: string }).clusterIP);
    expect(await lookUp(tenant, `_http._tcp.web.${ns}.svc.cluster.local`, 'SRV')).toMatch(
      /^0 \d+ 80 web\.services\.svc\.cluster\.local\.$/,
    );
  });

  it('of another tenant have no name here, and one of the same name is another one', async () => {
    expect(await lookUp(tenant, 'alone')).not.toBe('');
    // A DNS server remembers for half a minute that there was no such name, so this is not the name of below.
    expect(await lookUp(other, 'alone')).toBe('');
    await other.apply(webPod(ns, 'web'), service(ns, 'web'));
    await untilReady(other, ns, 'web');
    await servedBy(other, 'web', 1);
    await expect.poll(() => ask(other, 'http://web/hostname'), { interval: 500 }).toBe('web');
    expect(new Set((await ask(other, 'http://web/hostname', 20)).split('\n'))).toEqual(new Set(['web']));
    expect((await ask(tenant, 'http://web/hostname', 20)).split('\n')).not.toContain('web');
  });

  it('without an address resolve to their pods, and each pod of a StatefulSet has its name', async () => {
    await tenant.apply(
      service(ns, 'db', { clusterIP: 'None' }),
      statefulSet(ns, 'db', 2, {
        podManagementPolicy: 'Parallel',
        template: {
          metadata: { labels: { app: 'db' } },
          spec: { terminationGracePeriodSeconds: 1, containers: [web()] },
        },
        volumeClaimTemplates: [],
      }),
    );
    await tenant.kubectl('-n', ns, 'rollout', 'status', 'statefulset/db', patiently);
    await servedBy(tenant, 'db', 2);
    const address = async (name: string): Promise<string> =>
      at<string>(await tenant.client.get(resources.pods, { namespace: ns, name }), 'status', 'podIP') ?? '';
    const addresses = [await address('db-0'), await address('db-1')];
    // The DNS server hears of endpoints by a watch of its own, and keeps an answer for half a minute.
    await expect.poll(() => lookUp(tenant, 'db'), { interval: 200 }).toBe([...addresses].sort().join('\n'));
    for (const [index, each] of addresses.entries()) {
      expect(await lookUp(tenant, `db-${index}.db.${ns}.svc.cluster.local`)).toBe(each);
      expect(await ask(tenant, `http://db-${index}.db:8080/hostname`)).toBe(`db-${index}`);
    }
  });

  it('that stand for an outside name lead there, and outside names resolve', async () => {
    await tenant.apply(service(ns, 'outside', { type: 'ExternalName', externalName: 'www.outside.test' }));
    await expect
      .poll(() => lookUp(tenant, 'outside'), { interval: 200 })
      .toBe(`${inject('cluster').address}\nwww.outside.test.`);
    await expect
      .poll(() => lookUp(tenant, 'www.outside.test'), { interval: 200 })
      .toBe(inject('cluster').address);
    expect(await lookUp(tenant, 'nobody.inside.test')).toBe('');
  });

  it('on a port of the nodes are reached at every node, from outside of the cluster', async () => {
    await tenant.apply(service(ns, 'public', { type: 'NodePort', selector: { app: 'web' } }));
    const { spec } = await tenant.client.get(resources.services, { namespace: ns, name: 'public' });
    const [{ nodePort } = { nodePort: 0 }] = (spec as { ports: { nodePort: number }[] }).ports;
    for (const { address } of inject('cluster').nodes) {
      await expect
        .poll(() => fetch(`http://${address}:${nodePort}/hostname`).then((answer) => answer.text(), String), {
          interval: 200,
        })
        .toMatch(/^web-node-\d$/);
    }
  });

  it('lose a pod with it, and find its successor', async () => {
    await tenant.kubectl('-n', ns, 'delete', 'pod', 'web-node-1', patiently);
    await servedBy(tenant, 'web', 1);
    await expect
      .poll(async () => new Set((await ask(tenant, 'http://web/hostname', 10)).split('\n')), {
        interval: 200,
      })
      .toEqual(new Set(['web-node-2']));
    const successor = webPod(ns, 'web-later');
    successor.metadata.labels = { app: 'web' };
    await tenant.apply(successor);
    await untilReady(tenant, ns, 'web-later');
    await expect
      .poll(async () => new Set((await ask(tenant, 'http://web/hostname', 20)).split('\n')), {
        interval: 200,
      })
      .toEqual(new Set(['web-node-2', 'web-later']));
    await world.expectAgreement(undefined, patienceMs);
  });
});
