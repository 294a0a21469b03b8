import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { generateX25519Identity, identityToRecipient } from 'age-encryption';
import { afterEach, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import type { JobKind } from '../../api/job-status.ts';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { connectionFromSecret, type KubeObject, resources } from '../../kube/index.ts';
import type { ControlPlanePlan } from '../control-plane/plan.ts';
import { DriverError } from '../drivers/errors.ts';
import type { Entry } from '../etcd/keyspace.ts';
import { DirectoryStore } from '../snapshot/store.ts';
import type { OperatorOptions } from './services.ts';
import { dieAtEveryWrite } from './testing/every-write.ts';
import { condition, fastPace, jobRequests, World } from './testing/world.ts';

const timeoutMs = 240_000;

const gateway = { domain: 'tenants.test', host: '127.0.0.1', port: 7443 };
const gatewaySettings = { gateway, advertiseAddress: '192.0.2.1', etcdEndpoint: 'https://127.0.0.1:2379' };
/** How an API server that has changed is replaced. */
const replacements: [string, Partial<OperatorOptions>][] = [
  ['in its place', {}],
  ['by one beside it', { settings: gatewaySettings }],
];
const ownTemplate = 'v1-36-own-etcd';
const datastores: [string, { template?: string }][] = [
  ['the shared datastore', {}],
  ['an etcd of its own', { template: ownTemplate }],
];

const entry = (key: string): Entry => ({ key, value: Buffer.from('v') });

/** Where the tenant has its keys. */
function placeOf(world: World): [Map<string, Entry[]>, string] {
  const { id = '', datastore, datastorePorts } = world.get('a')?.status ?? {};
  return datastore === 'own'
    ? [world.ownDatastores.entries, `https://127.0.0.1:${datastorePorts?.[0]}`]
    : [world.datastore.entries, id];
}

function putKeys(world: World, ...keys: string[]): void {
  const [entries, place] = placeOf(world);
  entries.set(place, keys.map(entry));
}

function keysOf(world: World): string[] | undefined {
  const [entries, place] = placeOf(world);
  return entries
    .get(place)
    ?.map(({ key }) => key)
    .sort();
}

describe('a manager that dies at any write', () => {
  it(
    'while it makes a control plane is succeeded by one that finishes the same control plane',
    async () => {
      const writes = await dieAtEveryWrite({
        begin: async () => {
          const world = await World.start(fastPace(5));
          world.create('a');
          return world;
        },
        untilDone: (world) => world.untilReady('a'),
        check: async (world, when) => {
          const { status } = await world.untilReady('a');
          expect([...world.datastore.seen], when).toEqual([status?.id]);
          expect(new Set(world.driver.ensured.map(({ id }) => id)), when).toEqual(new Set([status?.id]));
          expect(
            world.superCluster.list(resources.ipAddresses).map(({ metadata }) => metadata.name),
            when,
          ).toEqual(['10.112.0.1', '10.112.0.10']);
          expect(status?.serviceCIDR).toBe('10.112.0.0/22');
        },
        end: (world) => world.end(),
      });
      expect(writes).toBeGreaterThan(10);
    },
    timeoutMs,
  );

  it.each(datastores)(
    'while it makes one of a snapshot is succeeded by one that fills the same control plane, with %s',
    async (_, spec) => {
      const root = await mkdtemp(join(tmpdir(), 'skerry-crash-'));
      try {
        const snapshots = { store: new DirectoryStore(root), recipients: [], identities: [] };
        const keys = ['configmaps/shop/settings', 'validatingwebhookconfigurations/guard'];
        const source = await made({ snapshots }, spec);
        putKeys(source, ...keys);
        source.run({ snapshots });
        jobRequests(() => source).annotate('a', annotationKeys.snapshot, 'one');
        const taken = await source.until('a', ({ status }) => status?.snapshots?.taken === 'one');
        const from = taken.status?.snapshots?.kept?.[0]?.name ?? '';
        await source.end();
        const writes = await dieAtEveryWrite({
          options: () => ({ snapshots }),
          begin: async () => {
            const world = await World.start(fastPace(5));
            world.create('a', { ...spec, restoreFrom: from });
            return world;
          },
          untilDone: (world) => world.untilReady('a'),
          check: async (world, when) => {
            const { status } = await world.untilReady('a');
            expect([...world.datastore.seen], when).toEqual(spec.template === undefined ? [status?.id] : []);
            expect(await world.driver.list(), when).toEqual([status?.id]);
            expect(keysOf(world), when).toEqual(keys);
            expect(status, when).toMatchObject({ restored: { from } });
            expect(status?.restore, when).toBeUndefined();
          },
          end: (world) => world.end(),
        });
        expect(writes).toBeGreaterThan(10);
      } finally {
        await rm(root, { recursive: true });
      }
    },
    timeoutMs,
  );

  it(
    'while it removes a control plane is succeeded by one that leaves nothing',
    async () => {
      const writes = await dieAtEveryWrite({
        begin: async () => {
          const world = await made();
          const labels = { [labelKeys.tenant]: world.get('a')?.metadata.uid ?? '' };
          world.superCluster.put(resources.namespaces, { metadata: { name: 'team-a-web-x', labels } });
          await world.delete('a');
          return world;
        },
        untilDone: (world) => world.untilGone('a'),
        check: async (world, when) => {
          expect(world.superCluster.get(resources.namespaces, { name: 'team-a-web-x' })).toBeUndefined();
          expect(await world.leftovers(), when).toEqual({
            secrets: [],
            addresses: [],
            controlPlanes: [],
            datastore: [],
          });
        },
        end: (world) => world.end(),
      });
      expect(writes).toBeGreaterThan(8);
    },
    timeoutMs,
  );
});

/** A world with a tenant that is ready, and no manager. */
async function made(options: Partial<OperatorOptions> = {}, spec: object = {}): Promise<World> {
  const world = await World.start(fastPace(5));
  const maker = world.run(options);
  world.create('a', spec);
  await world.untilReady('a');
  await maker.stop();
  return world;
}

/** What a file of the API server holds, as it was told in turn. */
function told(plans: readonly ControlPlanePlan[], path: string): string[] {
  const contents = plans.map(
    ({ components }) => components[0]?.files.find((each) => each.path === path)?.content ?? '',
  );
  return contents.filter((content, at) => content !== contents[at - 1]);
}

function decoded(secret: KubeObject | undefined): Record<string, string> {
  const data = Object.entries((secret?.['data'] ?? {}) as Record<string, string>);
  return Object.fromEntries(data.map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]));
}

describe('a manager that dies at any write while it works on a tenant', () => {
  let world: World;
  const ends: (() => Promise<unknown>)[] = [];
  afterEach(async () => {
    for (const end of ends.splice(0).reverse()) await end();
  });
  const { annotate } = jobRequests(() => world);
  const id = (): string => world.get('a')?.status?.id ?? '';

  const start = async (options: Partial<OperatorOptions> = {}, spec: object = {}): Promise<void> => {
    world = await made(options, spec);
    world.driver.replacesBySurge = options.settings?.gateway !== undefined;
    ends.push(() => world.end());
  };
  /** Where a snapshot store is needed. */
  const withSnapshots = async ({ isEncrypted = false } = {}) => {
    const root = await mkdtemp(join(tmpdir(), 'skerry-crash-'));
    ends.push(() => rm(root, { recursive: true }));
    const identities = isEncrypted ? [await generateX25519Identity()] : [];
    const recipients = await Promise.all(identities.map((each) => identityToRecipient(each)));
    const options = { snapshots: { store: new DirectoryStore(root), recipients, identities } };
    const files = async (): Promise<string[]> =>
      (await readdir(join(root, 'team', 'a'))).map((each) => `team/a/${each}`).sort();
    const kept = () => world.get('a')?.status?.snapshots?.kept ?? [];
    /** Nothing else is there, and nothing is missing. */
    const checkFiles = async (when: string): Promise<void> =>
      expect(await files(), when).toEqual(
        kept()
          .map(({ name }) => name)
          .sort(),
      );
    /** As many as are kept: the next one takes the place of an old one, in each round. */
    const fill = async (): Promise<void> => {
      const manager = world.run(options);
      for (const name of ['one', 'two']) {
        annotate('a', annotationKeys.snapshot, name);
        await until(({ snapshots }) => snapshots?.taken === name);
      }
      await manager.stop();
    };
    return { options, kept, checkFiles, fill };
  };
  const until = (is: (status: NonNullable<VirtualCluster['status']>) => boolean): Promise<VirtualCluster> =>
    world.until(
      'a',
      ({ status }) => status !== undefined && status.jobs?.current === undefined && is(status),
    );

  /** One tenant for all rounds, each of which asks for the same once more. */
  const everyRound = async (
    kind: JobKind,
    {
      ask,
      isDone,
      check,
      options = {},
      result = 'Succeeded',
      end = async () => {},
    }: {
      ask: (round: string) => unknown;
      isDone: (status: NonNullable<VirtualCluster['status']>, round: string) => boolean;
      check: (when: string, round: string) => unknown;
      options?: Partial<OperatorOptions>;
      /** Of the job, in each round. */
      result?: 'Succeeded' | 'Failed';
      end?: (round: string) => Promise<unknown>;
    },
  ): Promise<number> => {
    let round = '';
    let before: Awaited<ReturnType<World['leftovers']>>;
    return dieAtEveryWrite({
      options: () => options,
      begin: async (number) => {
        round = `r${number}`;
        before = await world.leftovers();
        await ask(round);
        world.driver.ensured.length = 0;
        world.driver.handOvers = 0;
        return world;
      },
      untilDone: () => until((status) => isDone(status, round)),
      check: async (_, when) => {
        const { jobs } = world.get('a')?.status ?? {};
        // The same job, whoever has worked on it, and no other.
        expect(jobs?.history?.[0], when).toMatchObject({ kind, result });
        expect(
          jobs?.history?.filter((job) => job.result !== (job.kind === kind ? result : 'Succeeded')),
          when,
        ).toEqual([]);
        if (world.get('a')?.status?.phase !== 'Asleep') {
          // The second manager has looked at all of it, and finds nothing more to do.
          world.edit('a', { weight: (world.get('a')?.metadata.generation ?? 0) + 1 });
          const { generation } = world.get('a')?.metadata ?? {};
          await until(
            ({ phase, observedGeneration }) => phase === 'Ready' && observedGeneration === generation,
          );
          expect([...world.driver.running], when).toEqual([id()]);
          const { advertisedPort, replacementPort } = world.get('a')?.status ?? {};
          expect(replacementPort, when).toBeUndefined();
          const server = world.driver.plans
            .get(id())
            ?.components.find(({ name }) => name === 'kube-apiserver');
          expect(server?.ports[0]?.port, when).toBe(advertisedPort);
        }
        expect(await world.leftovers(), when).toEqual(before);
        await check(when, round);
      },
      end: async () => {
        await end(round);
      },
    });
  };

  const checkHandOvers = (when: string): void =>
    expect(world.driver.handOvers > 0, when).toBe(world.driver.replacesBySurge);

  it.each(replacements)(
    'to change its version, %s',
    async (_, options) => {
      await start(options, { version: '1.36.3' });
      const wanted = (round: string): string => `1.36.1${round.slice(1)}`;
      const writes = await everyRound('version-change', {
        options,
        ask: (round) => world.edit('a', { version: wanted(round) }),
        isDone: ({ version }, round) => version === wanted(round),
        check: (when, round) => {
          checkHandOvers(when);
          const binaries = world.driver.plans.get(id())?.components.map(({ binary }) => binary) ?? [];
          expect(new Set(binaries.map((each) => 'version' in each && each.version)), when).toEqual(
            new Set([wanted(round)]),
          );
          expect(world.get('a')?.status?.jobs?.history?.[0]?.target).toBe(wanted(round));
        },
      });
      expect(writes).toBeGreaterThan(3);
    },
    timeoutMs,
  );

  it.each(replacements)(
    'to go back from a version that does not start, %s',
    async (_, options) => {
      await start(options, { version: '1.35.4' });
      const versionsOf = ({ components }: ControlPlanePlan) =>
        new Set(components.map(({ binary }) => 'version' in binary && binary.version));
      world.driver.beforeEnsure = (plan) => {
        if (!versionsOf(plan).has('1.36.3')) return;
        throw new DriverError('NotReady', `kube-apiserver of ${plan.id} has exited.`, {
          id: plan.id,
          component: 'kube-apiserver',
        });
      };
      const isBack = ({ phase, version, jobs }: NonNullable<VirtualCluster['status']>, round: string) =>
        phase === 'Ready' &&
        version === '1.35.4' &&
        jobs?.retried === round &&
        jobs.held?.why !== undefined &&
        jobs.history?.[0]?.kind === 'version-change';
      // Each round tries once more what an earlier one has left.
      const manager = world.run(options);
      world.edit('a', { version: '1.36.3' });
      annotate('a', annotationKeys.retryJob, 'first');
      await until((status) => isBack(status, 'first'));
      await manager.stop();
      const writes = await everyRound('version-change', {
        options,
        result: 'Failed',
        ask: (round) => annotate('a', annotationKeys.retryJob, round),
        isDone: isBack,
        check: async (when) => {
          // The earlier one has never ended.
          expect(world.driver.handOvers, when).toBe(0);
          // The look at it has tried the version again.
          const { status } = await until(({ phase, jobs }) => phase === 'Ready' && jobs?.held !== undefined);
          expect(condition({ metadata: {}, status } as VirtualCluster, 'VersionCurrent'), when).toMatchObject(
            {
              status: 'False',
              reason: 'RolledBack',
            },
          );
          expect(versionsOf(world.driver.plans.get(id()) as ControlPlanePlan), when).toEqual(
            new Set(['1.35.4']),
          );
        },
      });
      expect(writes).toBeGreaterThan(3);
    },
    timeoutMs,
  );

  it.each(replacements)(
    'to renew certificates, %s',
    async (_, options) => {
      await start(options);
      const certificate = () => told(world.driver.ensured, 'apiserver.crt');
      let old = decoded(world.secretOf('a', 'pki'))['apiserver.crt'];
      const writes = await everyRound('renewal', {
        options,
        ask: (round) => annotate('a', annotationKeys.renewCertificates, round),
        isDone: ({ jobs }, round) => jobs?.renewed === round,
        check: (when) => {
          checkHandOvers(when);
          const pki = decoded(world.secretOf('a', 'pki'));
          expect(pki['apiserver.crt'], when).not.toBe(old);
          // Issued once for this request.
          expect(
            certificate().filter((each) => each !== old),
            when,
          ).toEqual([pki['apiserver.crt']]);
          old = pki['apiserver.crt'];
          const ref = { namespace: 'team', name: 'a-kubeconfig' };
          const { kubeconfig = '' } = decoded(world.superCluster.get(resources.secrets, ref));
          expect(connectionFromSecret(kubeconfig).cert, when).toBe(pki['admin.crt']);
        },
      });
      expect(writes).toBeGreaterThan(3);
    },
    timeoutMs,
  );

  it.each(replacements)(
    'to rotate the encryption key, %s',
    async (_, options) => {
      await start(options);
      const keys = (): string[][] =>
        told(world.driver.ensured, 'encryption.yaml').map((content) => {
          const { resources: [first] = [] } = parse(content) as {
            resources: { providers: { secretbox?: { keys: { name: string }[] } }[] }[];
          };
          return (first?.providers ?? []).flatMap(
            ({ secretbox }) => secretbox?.keys.map(({ name }) => name) ?? [],
          );
        });
      let old = world.get('a')?.status?.encryption?.key ?? '';
      const writes = await everyRound('key-rotation', {
        options,
        ask: (round) => annotate('a', annotationKeys.rotateEncryptionKey, round),
        isDone: ({ jobs }, round) => jobs?.rotated === round,
        check: (when) => {
          checkHandOvers(when);
          const is = world.get('a')?.status?.encryption?.key ?? '';
          const stages = [[old, is], [is, old], [is]];
          const seen = keys();
          expect(seen[0]?.length === 1 ? seen.slice(1) : seen, when).toEqual(stages);
          old = is;
        },
      });
      expect(writes).toBeGreaterThan(6);
    },
    timeoutMs,
  );

  it.each([
    ...datastores.map((each) => [...each, 'Ready'] as const),
    ['an etcd of its own that sleeps', { template: ownTemplate }, 'Asleep'] as const,
  ])(
    'to take a snapshot of %s',
    async (_, spec, phase) => {
      const { options, kept, checkFiles, fill } = await withSnapshots();
      await start(options, { ...spec, snapshots: { keep: 2 } });
      putKeys(world, 'configmaps/shop/settings');
      await fill();
      if (phase === 'Asleep')
        await untilAfter(
          () => sleep('one'),
          (status) => isStopped(status, 'one'),
        );
      const writes = await everyRound('snapshot', {
        options,
        ask: (round) => annotate('a', annotationKeys.snapshot, round),
        isDone: ({ snapshots, sleep: is }, round) =>
          snapshots?.taken === round && (phase === 'Ready' || is?.stopped === true),
        check: async (when) => {
          expect(world.get('a')?.status?.phase, when).toBe(phase);
          expect(world.driver.running.size, when).toBe(phase === 'Asleep' ? 0 : 1);
          expect(kept().length, when).toBe(2);
          expect(kept()[0]?.entries, when).toBe(1);
          await checkFiles(when);
        },
      });
      expect(writes).toBeGreaterThan(3);
    },
    timeoutMs,
  );

  it.each(datastores)(
    'to put a snapshot back into %s',
    async (_, spec) => {
      const { options, kept, checkFiles, fill } = await withSnapshots();
      await start(options, { ...spec, snapshots: { keep: 2 } });
      putKeys(world, 'configmaps/shop/settings');
      await fill();
      const from = kept()[0]?.name ?? '';
      const ask = (round: string): void => {
        putKeys(world, 'configmaps/shop/a', 'configmaps/shop/b');
        annotate('a', annotationKeys.restoreFrom, from);
        annotate('a', annotationKeys.restore, round);
      };
      const isDone = ({ restored, restore }: NonNullable<VirtualCluster['status']>, round: string): boolean =>
        restored?.request === round && restore === undefined;
      // As many of what was there before are kept.
      const manager = world.run(options);
      for (const request of ['first', 'second']) {
        ask(request);
        await until((status) => isDone(status, request));
      }
      await manager.stop();
      const writes = await everyRound('restore', {
        options,
        ask,
        isDone,
        check: async (when) => {
          expect(keysOf(world), when).toEqual(['configmaps/shop/settings']);
          // What was there before is kept.
          const before = kept().filter(({ reason }) => reason === 'BeforeRestore');
          expect(before[0]?.entries, when).toBe(2);
          await checkFiles(when);
        },
      });
      expect(writes).toBeGreaterThan(6);
    },
    timeoutMs,
  );

  it(
    'to take a snapshot with certificates, and to put it back with them',
    async () => {
      const { options, kept, checkFiles } = await withSnapshots({ isEncrypted: true });
      await start(options, { snapshots: { keep: 2 } });
      putKeys(world, 'configmaps/shop/settings');
      const authorities = (): unknown => {
        const pki = decoded(world.secretOf('a', 'pki'));
        return ['client-ca.crt', 'serving-ca.crt', 'service-account.key'].map((name) => pki[name]);
      };
      const taken = authorities();
      const alive = async (ask: () => void, isDone: Parameters<typeof until>[0]): Promise<void> => {
        const manager = world.run(options);
        ask();
        await until(isDone);
        await manager.stop();
      };
      for (const request of ['1 certificates', '2 certificates'])
        await alive(
          () => annotate('a', annotationKeys.snapshot, request),
          ({ snapshots }) => snapshots?.taken === request,
        );
      const taking = await everyRound('snapshot', {
        options,
        ask: (round) => annotate('a', annotationKeys.snapshot, `${round} certificates`),
        isDone: ({ snapshots }, round) => snapshots?.taken === `${round} certificates`,
        check: async (when) => {
          expect(
            kept().map(({ certificates }) => certificates),
            when,
          ).toEqual([true, true]);
          await checkFiles(when);
        },
      });
      expect(taking).toBeGreaterThan(3);
      const from = kept()[0]?.name ?? '';
      const restore = (round: string): void => {
        putKeys(world, 'configmaps/shop/a', 'configmaps/shop/b');
        annotate('a', annotationKeys.restoreFrom, from);
        annotate('a', annotationKeys.restore, `${round} certificates`);
      };
      const isRestored = (
        { restored, restore: under }: NonNullable<VirtualCluster['status']>,
        round: string,
      ): boolean => restored?.request === `${round} certificates` && under === undefined;
      // As many of what was there before are kept.
      for (const request of ['first', 'second'])
        await alive(
          () => restore(request),
          (status) => isRestored(status, request),
        );
      const restoring = await everyRound('restore', {
        options,
        ask: async (round) => {
          const request = `${round} overlap=0`;
          await alive(
            () => annotate('a', annotationKeys.renewAuthorities, request),
            ({ jobs }) => jobs?.authorities === request,
          );
          expect(authorities()).not.toEqual(taken);
          restore(round);
        },
        isDone: isRestored,
        check: async (when) => {
          expect(keysOf(world), when).toEqual(['configmaps/shop/settings']);
          expect(authorities(), when).toEqual(taken);
          await checkFiles(when);
        },
      });
      expect(restoring).toBeGreaterThan(6);
    },
    2 * timeoutMs,
  );

  const sleep = (round: string): void => annotate('a', annotationKeys.sleep, round);
  const wake = (round: string): void => annotate('a', annotationKeys.wake, round);
  const isStopped = ({ phase, sleep: is }: NonNullable<VirtualCluster['status']>, round: string): boolean =>
    phase === 'Asleep' && is?.stopped === true && is.slept === round;
  const isWoken = ({ phase, sleep: is }: NonNullable<VirtualCluster['status']>, round: string): boolean =>
    phase === 'Ready' && is?.woken === round;
  /** By a manager that lives. */
  const untilAfter = async (
    ask: () => void,
    isDone: (status: NonNullable<VirtualCluster['status']>) => boolean,
  ): Promise<void> => {
    const manager = world.run();
    ask();
    await until(isDone);
    await manager.stop();
  };

  it.each(datastores)(
    'to put it to sleep, with %s',
    async (_, spec) => {
      await start({}, spec);
      const writes = await everyRound('sleep', {
        ask: sleep,
        isDone: isStopped,
        check: (when) => expect([...world.driver.running], when).toEqual([]),
        end: (round) =>
          untilAfter(
            () => wake(round),
            (status) => isWoken(status, round),
          ),
      });
      expect(writes).toBeGreaterThan(3);
    },
    timeoutMs,
  );

  it.each([
    ['for nobody uses it', 'Idle', { afterIdle: '20m' }],
    ['by the clock', 'Scheduled', { at: '0 * * * *', wakeAt: '30 * * * *' }],
  ])(
    'to put it to sleep, %s',
    async (_, reason, spec) => {
      const hourMs = 3_600_000;
      const fromMs = (Math.floor(Date.now() / hourMs) + 1) * hourMs;
      let nowMs = fromMs + hourMs + 31 * 60_000;
      const options = { settings: gatewaySettings, clock: { ...fastPace(5).clock, now: () => nowMs } };
      await start(options, { sleep: spec });
      const before = await world.leftovers();
      const isAsleep = ({ phase, sleep: is }: NonNullable<VirtualCluster['status']>): boolean =>
        phase === 'Asleep' && is?.stopped === true;
      const untilAwake = async (round: number): Promise<void> => {
        nowMs = fromMs + round * hourMs + 31 * 60_000;
        const manager = world.run(options);
        if (reason === 'Idle') wake(`${round}`);
        await until(({ phase }) => phase === 'Ready');
        await manager.stop();
      };
      const writes = await dieAtEveryWrite({
        options: () => options,
        begin: async (round) => {
          // At the half of each hour it was woken; now it is the minute after the next one.
          await untilAwake(round);
          nowMs = fromMs + (round + 1) * hourMs + 60_000;
          return world;
        },
        untilDone: () => until(isAsleep),
        check: async (each, when) => {
          const { status } = each.get('a') ?? {};
          expect(status?.sleep, when).toMatchObject({ reason, stopped: true });
          expect([...each.driver.running], when).toEqual([]);
          expect(
            status?.jobs?.history?.filter(({ result }) => result !== 'Succeeded'),
            when,
          ).toEqual([]);
          expect(await each.leftovers(), when).toEqual(before);
        },
      });
      expect(writes).toBeGreaterThan(1);
    },
    timeoutMs,
  );

  it(
    'to wake it',
    async () => {
      await start();
      const writes = await everyRound('wake', {
        ask: async (round) => {
          await untilAfter(
            () => sleep(round),
            (status) => isStopped(status, round),
          );
          wake(round);
        },
        isDone: isWoken,
        check: (when) => expect([...world.driver.running], when).toEqual([id()]),
      });
      expect(writes).toBeGreaterThan(3);
    },
    timeoutMs,
  );
});
