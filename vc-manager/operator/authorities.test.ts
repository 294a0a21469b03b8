import { X509Certificate } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { annotationKeys } from '../../api/labels.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { connectionFromSecret, type KubeObject, resources, systemClock } from '../../kube/index.ts';
import type { ControlPlanePlan } from '../control-plane/plan.ts';
import { dieAtEveryWrite } from './testing/every-write.ts';
import { fastPace, jobRequests, World } from './testing/world.ts';

const day = 24 * 60 * 60_000;

function decoded(secret: KubeObject | undefined): Record<string, string> {
  const data = Object.entries((secret?.['data'] ?? {}) as Record<string, string>);
  return Object.fromEntries(data.map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]));
}

function file(plan: ControlPlanePlan | undefined, path: string): string {
  return plan?.components.flatMap(({ files }) => files).find((each) => each.path === path)?.content ?? '';
}

function parts(pem: string): string[] {
  return pem.match(/-----BEGIN[^-]*-----[^-]*-----END[^-]*-----/g) ?? [];
}

describe('the authorities of a tenant', () => {
  let world: World;
  let aheadMs = 0;
  const clock = { ...systemClock, now: () => Date.now() + aheadMs };
  beforeEach(async () => {
    aheadMs = 0;
    world = await World.start();
  });
  afterEach(() => world.end());

  const { annotate, cancel, jobs } = jobRequests(() => world);
  const renew = (request: string): void => annotate('a', annotationKeys.renewAuthorities, request);
  const pki = (): Record<string, string> => decoded(world.secretOf('a', 'pki'));
  const kubeconfig = () =>
    connectionFromSecret(
      decoded(world.superCluster.get(resources.secrets, { namespace: 'team', name: 'a-kubeconfig' }))[
        'kubeconfig'
      ] ?? '',
    );
  /** What API servers were told, without repetitions: who signs them, and whom they trust. */
  const configurations = () =>
    world.driver.ensured
      .map((plan) => ({
        clients: parts(file(plan, 'client-ca.crt')),
        tokens: parts(file(plan, 'service-account.pub')),
        serving: issuerOf(file(plan, 'apiserver.crt'), parts(file(plan, 'serving-ca.crt'))),
        signer: parts(file(plan, 'client-signing-ca.crt')),
      }))
      .filter((each, at, all) => JSON.stringify(each) !== JSON.stringify(all[at - 1]));
  const issuerOf = (leaf: string, authorities: readonly string[]): string | undefined =>
    authorities.find((each) => new X509Certificate(leaf).verify(new X509Certificate(each).publicKey));
  /** The control plane has taken the stage up. */
  const reached = (stage: 'distribute' | 'overlap'): Promise<VirtualCluster> =>
    world.until(
      'a',
      ({ status }) => status?.authorities?.stage === stage && status.authorities.until !== undefined,
    );
  const ended = (): Promise<VirtualCluster> =>
    world.until(
      'a',
      ({ status }) =>
        status?.jobs?.history?.[0]?.kind === 'authority-renewal' && status.jobs.current === undefined,
    );
  /** The end of a stage, at the next look at the tenant. */
  const later = (ms: number): void => {
    aheadMs += ms;
    world.edit('a', { weight: 2 });
  };

  it('are renewed on request: trusted first, then signing, then alone', async () => {
    world.run({ clock });
    world.create('a');
    const made = await world.untilReady('a');
    expect(made.status?.certificates?.filter(({ kind }) => kind === 'authority')).toHaveLength(4);
    const old = pki();
    renew('one overlap=86400');
    const told = await reached('distribute');
    expect(told.status?.jobs?.current).toMatchObject({
      kind: 'authority-renewal',
      message: expect.stringContaining('the old ones sign'),
    });
    expect(told.status?.phase).toBe('Ready');
    expect(pki()['admin.crt']).toBe(old['admin.crt']);
    expect(parts(kubeconfig().ca ?? '')).toHaveLength(2);
    later(day);
    const signing = await reached('overlap');
    expect(signing.status?.tokenKey).toMatch(/^[0-9a-f]{16}$/);
    expect(kubeconfig().cert).not.toBe(old['admin.crt']);
    expect(parts(kubeconfig().ca ?? '')).toHaveLength(2);
    later(day);
    const { status } = await ended();
    expect(status?.authorities).toBeUndefined();
    expect(status?.jobs).toMatchObject({
      authorities: 'one overlap=86400',
      history: [{ result: 'Succeeded' }, {}],
    });
    const is = pki();
    expect(kubeconfig().ca).toBe(is['serving-ca.crt']);
    const certificate = (data: Record<string, string>, name: string): string =>
      parts(data[name] ?? '')[0] ?? '';
    const [before, after] = [old, is].map((data) => ({
      client: certificate(data, 'client-ca.crt'),
      serving: certificate(data, 'serving-ca.crt'),
      token: certificate(data, 'service-account.pub'),
    }));
    expect(configurations()).toEqual([
      {
        clients: [before?.client],
        tokens: [before?.token],
        serving: before?.serving,
        signer: [before?.client],
      },
      {
        clients: [before?.client, after?.client],
        tokens: [before?.token, after?.token],
        serving: before?.serving,
        signer: [before?.client],
      },
      {
        clients: [after?.client, before?.client],
        tokens: [after?.token, before?.token],
        serving: before?.serving,
        signer: [after?.client],
      },
      { clients: [after?.client], tokens: [after?.token], serving: after?.serving, signer: [after?.client] },
    ]);
  });

  it('are replaced at once without an overlap', async () => {
    world.run({ clock });
    world.create('a');
    await world.untilReady('a');
    const old = pki();
    renew('one overlap=0');
    const { status } = await ended();
    expect(status?.tokenKey).toBeDefined();
    expect(configurations()).toHaveLength(2);
    expect(configurations()[1]?.clients).toEqual(parts(pki()['client-ca.crt'] ?? ''));
    expect(configurations()[1]?.clients).not.toContain(parts(old['client-ca.crt'] ?? '')[0]);
  });

  it('stay when that is cancelled while they sign, and not later', async () => {
    world.run({ clock });
    world.create('a');
    await world.untilReady('a');
    const old = pki();
    renew('one overlap=86400');
    await reached('distribute');
    cancel('a');
    await world.until('a', ({ status }) => status?.jobs?.history?.[0]?.result === 'Cancelled');
    await world.until('a', ({ status }) => status?.authorities === undefined);
    expect(pki()['client-ca.crt']).toBe(old['client-ca.crt']);
    expect(parts(kubeconfig().ca ?? '')).toHaveLength(1);
    renew('two overlap=86400');
    await reached('distribute');
    later(day);
    await reached('overlap');
    cancel('a');
    const refused = await world.until('a', ({ status }) => status?.jobs?.current?.refusal !== undefined);
    expect(refused.status?.jobs?.current?.refusal).toContain('sign already');
    expect(jobs('a')?.current?.kind).toBe('authority-renewal');
  });

  it('are left alone where the template signs with what may be two', async () => {
    world.changeTemplates(({ spec }) => {
      for (const { args } of spec.components)
        if (args['cluster-signing-kube-apiserver-client-cert-file'] !== undefined)
          args['cluster-signing-kube-apiserver-client-cert-file'] = '${file:client-ca.crt}';
    });
    world.run({ clock });
    world.create('a');
    await world.untilReady('a');
    const old = pki();
    renew('one');
    const { status } = await world.until('a', (vc) => vc.status?.jobs?.current?.failing === true);
    expect(status?.jobs?.current?.message).toContain('client-signing-ca.crt');
    expect(status?.phase).toBe('Ready');
    expect(pki()['client-ca.crt']).toBe(old['client-ca.crt']);
  });
});

describe('a manager that dies while it renews authorities', () => {
  const gateway = { domain: 'tenants.test', host: '127.0.0.1', port: 7443 };
  it.each([
    ['in its place', {}],
    ['beside it', { gateway }],
  ])(
    'at any write is succeeded by one that brings the same renewal to its end, with each API server %s',
    async (_, more) => {
      const settings = { advertiseAddress: '192.0.2.1', etcdEndpoint: 'https://127.0.0.1:2379', ...more };
      const pace = fastPace(5);
      const world = await World.start(pace);
      world.driver.replacesBySurge = 'gateway' in settings;
      const maker = world.run({ settings });
      world.create('a');
      await world.untilReady('a');
      await maker.stop();
      let aheadMs = 0;
      const clock = { ...pace.clock, now: () => pace.clock.now() + aheadMs };
      let request = '';
      let urged = '';
      /** Each stage ends at the next look at the tenant, once the control plane has taken it up. */
      const urge = ({ status }: VirtualCluster): void => {
        const { until } = status?.authorities ?? {};
        if (until === undefined || until === urged) return;
        urged = until;
        aheadMs += 60_000;
        queueMicrotask(() => world.edit('a', { weight: (world.get('a')?.metadata.generation ?? 0) + 1 }));
      };
      const writes = await dieAtEveryWrite({
        options: () => ({ settings, clock }),
        begin: async (round) => {
          request = `r${round} overlap=60`;
          jobRequests(() => world).annotate('a', annotationKeys.renewAuthorities, request);
          world.driver.ensured.length = 0;
          world.driver.handOvers = 0;
          return world;
        },
        untilDone: () =>
          world.until('a', (vc) => {
            urge(vc);
            return vc.status?.jobs?.authorities === request && vc.status.jobs.current === undefined;
          }),
        check: (_, when) => {
          const { jobs, replacementPort } = world.get('a')?.status ?? {};
          expect(replacementPort, when).toBeUndefined();
          expect(world.driver.handOvers > 2, when).toBe(world.driver.replacesBySurge);
          expect(jobs?.history?.[0], when).toMatchObject({ kind: 'authority-renewal', result: 'Succeeded' });
          expect(
            jobs?.history?.filter(({ result }) => result !== 'Succeeded'),
            when,
          ).toEqual([]);
          const trusted = world.driver.ensured.map((plan) => parts(file(plan, 'client-ca.crt')));
          const is = decoded(world.secretOf('a', 'pki'));
          expect(trusted.at(-1), when).toEqual(parts(is['client-ca.crt'] ?? ''));
          // The old one and one new one: none is made twice.
          expect(new Set(trusted.flat()).size, when).toBe(2);
        },
      });
      expect(writes).toBeGreaterThan(8);
      await world.end();
    },
    240_000,
  );
});
