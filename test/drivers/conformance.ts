import { createServer } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { Connection, KubeClient, type KubeObject, resources } from '../../kube/index.ts';
import { itInTestAll } from '../../kube/testing/broad.ts';
import { defaultVersions } from '../../vc-manager/binaries/index.ts';
import type { ControlPlanePlan } from '../../vc-manager/control-plane/plan.ts';
import { renderPlan } from '../../vc-manager/control-plane/render-plan.ts';
import { loadTemplates, selectTemplate } from '../../vc-manager/control-plane/template.ts';
import type { SurgeUpdate } from '../../vc-manager/drivers/driver.ts';
import { DriverError } from '../../vc-manager/drivers/errors.ts';
import { freePort } from '../../vc-manager/os/network.ts';
import { ensureEncryption, ensureTenantPki, type TenantPki } from '../../vc-manager/pki/index.ts';
import { patientRequests } from '../harness/poll.ts';
import { type DriverWorld, EventLog, type HeldDriver, type ServerAddress } from './driver-world.ts';

/** Of a log that ends. */
async function lines(iterable: AsyncIterable<string>): Promise<string[]> {
  const all: string[] = [];
  for await (const line of iterable) all.push(line);
  return all;
}

/** The DriverError that it has to reject with. */
async function failure(promise: Promise<unknown>): Promise<DriverError> {
  const error = await promise.then(
    () => Promise.reject(new Error('it did not fail')),
    (reason: unknown) => reason,
  );
  if (!(error instanceof DriverError)) throw error;
  return error;
}

/** What an API server says once, when it starts; or the end of its log. */
function saysVersion({ done, value }: IteratorResult<string, unknown>): boolean {
  return done === true || / Version: v1\./.test(String(value));
}

function newKind(plural: string): KubeObject {
  const group = 'conformance.skerry.dev';
  const schema = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true };
  return {
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope: 'Namespaced',
      names: { plural, singular: plural.slice(0, -1), kind: 'Well' },
      versions: [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: schema } }],
    },
  };
}

const clusterDomain = 'cluster.local';

interface PlanChanges {
  version?: string;
  extraArgs?: Record<string, Record<string, string>>;
  /** Default: where it listens now. */
  bindPort?: number;
}

/** One control plane of the conformance suite: its credentials, its plans, and a client of its API server. */
class ConformancePlan {
  readonly id: string;
  address: ServerAddress;
  readonly #world: DriverWorld;
  readonly #pki: TenantPki;
  /** Made once, as the manager does. */
  readonly #encryption = ensureEncryption(undefined, { wasStarted: false });
  readonly #template: ReturnType<typeof selectTemplate>['template'];

  private constructor(
    world: DriverWorld,
    id: string,
    address: ServerAddress,
    pki: TenantPki,
    template: ReturnType<typeof selectTemplate>['template'],
  ) {
    this.#world = world;
    this.id = id;
    this.address = address;
    this.#pki = pki;
    this.#template = template;
  }

  /** Makes room for it in the datastore, too. */
  static async prepare(world: DriverWorld, id: string): Promise<ConformancePlan> {
    await world.datastore.ensureTenant(id);
    const address = await world.locate(id);
    const { pki } = await ensureTenantPki(undefined, {
      id,
      clusterDomain,
      hosts: [address.host],
      etcdCa: world.pki.etcdCa,
      now: new Date(),
    });
    const { template } = selectTemplate(await loadTemplates(), {
      defaultVersion: defaultVersions.kubernetes,
    });
    return new ConformancePlan(world, id, address, pki, template);
  }

  /** Equal changes give equal plans. */
  plan({
    version = defaultVersions.kubernetes,
    extraArgs = {},
    bindPort = this.address.bindPort,
  }: PlanChanges = {}): ControlPlanePlan {
    const { etcdCa, kubeletProxyCa } = this.#world.pki;
    const plan = renderPlan({
      id: this.id,
      template: this.#template.spec,
      version,
      serviceCIDR: '10.112.4.0/22',
      clusterDomain,
      ports: { 'kube-apiserver': bindPort },
      bindAddress: this.address.bindAddress,
      advertiseAddress: '192.0.2.10',
      etcd: { endpoint: this.#world.datastore.endpoint },
      pki: this.#pki,
      encryption: this.#encryption,
      etcdCa: etcdCa.certPem,
      kubeletCa: kubeletProxyCa.certPem,
      extraArgs,
    });
    return this.#world.complete?.(plan) ?? plan;
  }

  /** Where another one can stand beside its API server, and clients go there once it is ready. */
  async surge(changes: PlanChanges, portsOfThisMachine: boolean): Promise<SurgeUpdate> {
    const { host, bindPort: port } = this.address;
    const bindPort = portsOfThisMachine
      ? await freePort({ host, taken: [port], range: [port, 21_999] })
      : port;
    return {
      component: server,
      plan: async () => this.plan({ ...changes, bindPort }),
      handOver: async () => {
        if (portsOfThisMachine) this.address = { ...this.address, bindPort, port: bindPort };
      },
    };
  }

  /** With the manager's credentials, on a connection of its own. */
  async withClient<T>(use: (client: KubeClient) => Promise<T>): Promise<T> {
    const { host, port } = this.address;
    const { servingCa, leafs } = this.#pki;
    const connection = new Connection({
      server: `https://${host.includes(':') ? `[${host}]` : host}:${port}`,
      ca: servingCa.certPem,
      cert: leafs.manager.certPem,
      key: leafs.manager.keyPem,
      ...patientRequests,
    });
    try {
      return await use(new KubeClient(connection));
    } finally {
      await connection.close();
    }
  }

  /** As the API server itself says it: no driver can keep a restart from showing here. */
  async serverStartedAt(): Promise<number> {
    const metrics = String(await this.withClient((client) => client.raw('GET', '/metrics')));
    const line = /^process_start_time_seconds (\S+)$/m.exec(metrics);
    if (line === null) throw new Error('the API server does not say when it was started');
    return Number(line[1]);
  }
}

const { signal } = new AbortController();
const server = 'kube-apiserver';
const controllers = 'kube-controller-manager';
/** Ids of this suite's control planes; the driver may have others. */
const id = 'conformance';
const otherId = 'port-taken';

/** What a driver with tests of its own may prove at a cheaper level: the names of the tests here. */
const rules = {
  partialStop: 'stops only the components that are named',
  versionChange: 'carries another version out in the order of dependencies, and keeps all objects',
  partialChange: 'restarts only what has changed',
  stop: 'stops everything and keeps its data',
  failure: 'says why a component keeps exiting, with the end of its log',
} as const;

interface DriverTraits {
  /** API servers listen on ports of this machine, where others may have taken them. */
  readonly portsOfThisMachine?: boolean;
  /** Run with `npm run test:all` only; a change of parts builds on one of the version. */
  readonly provenElsewhere?: readonly (keyof typeof rules)[];
}

/**
 * What every driver of control planes has to do, on a real etcd, kube-apiserver and kube-controller-manager. One
 * control plane goes through its whole life; the tests stand in that order and build on one another.
 */
export function describeDriver(
  name: string,
  makeWorld: () => Promise<DriverWorld>,
  { portsOfThisMachine = true, provenElsewhere = [] }: DriverTraits = {},
): void {
  const prove = (rule: keyof typeof rules, test: () => Promise<void>): void =>
    (provenElsewhere.includes(rule) ? itInTestAll : it)(rules[rule], test);

  describe(`the ${name} driver`, () => {
    const drivers: HeldDriver[] = [];
    const logs: EventLog[] = [];
    let world: DriverWorld;
    let driver: HeldDriver;
    let life: ConformancePlan;
    /** Before the first component was started, and after the last one was ready. */
    let begunAt = Number.NaN;
    let readyAt = Number.NaN;

    beforeAll(async () => {
      world = await makeWorld();
      driver = newDriver();
      life = await ConformancePlan.prepare(world, id);
    });

    afterAll(async () => {
      if (world === undefined) return;
      const last = newDriver();
      for (const each of [id, otherId]) await last.remove(each, { signal });
      await Promise.all(drivers.map((each) => each.close?.()));
      await world.close();
    });

    afterEach(() => {
      for (const log of logs.splice(0)) log.close();
    });

    /** What they make in every namespace is there: they do what they are for. */
    const controllersWork = async (namespace: string): Promise<void> => {
      const account = () =>
        life.withClient((client) =>
          client.get(resources.serviceAccounts, { namespace, name: 'default' }).catch(() => undefined),
        );
      await expect.poll(account).toBeDefined();
    };

    it('brings a control plane up, and returns when it can be used', async () => {
      const events = eventsOf(driver);
      const ready: string[] = [];
      begunAt = Date.now();
      await driver.ensure(life.plan(), { signal, onReady: (component) => ready.push(component) });
      readyAt = Date.now();
      expect(ready).toEqual([server, controllers]);
      await events.until(
        `${server} started`,
        `${server} ready`,
        `${controllers} started`,
        `${controllers} ready`,
      );
      expect(events.told.filter((told) => told.endsWith('exited'))).toEqual([]);
      await makeSettings('first');
      await controllersWork('default');
    });

    it('lists it, and says what runs and since when', async () => {
      expect(await driver.list()).toContain(life.id);
      const { id, components } = await driver.observe(life.id);
      expect(id).toBe(life.id);
      expect(components.map(({ name: component, state }) => [component, state])).toEqual([
        [server, 'running'],
        [controllers, 'running'],
      ]);
      const since = await startOf(server);
      // Some places tell of whole seconds only.
      expect(since).toBeGreaterThan(begunAt - 1_000);
      expect(since).toBeLessThanOrEqual(readyAt);
    });

    it('changes nothing when everything is as planned', async () => {
      const before = await starts();
      const events = eventsOf(driver);
      await driver.ensure(life.plan(), { signal });
      expect(await starts()).toEqual(before);
      expect(events.told.filter((told) => !told.endsWith('ready'))).toEqual([]);
    });

    it('gives the end of a log, goes on with what is added, and knows what has no log', async () => {
      const all = await lines(driver.logs(life.id, server, { signal }));
      expect(all.length).toBeGreaterThan(2);
      expect(all.join('\n')).not.toMatch(/\r/);
      const last = await lines(driver.logs(life.id, server, { tailLines: 2, signal }));
      expect(last).toHaveLength(2);
      expect(await lines(driver.logs(life.id, server, { tailLines: 0, signal }))).toEqual([]);

      const ending = new AbortController();
      const following = driver.logs(life.id, server, { follow: true, tailLines: 1, signal: ending.signal });
      const iterator = following[Symbol.asyncIterator]();
      // The log is open when its end has come.
      expect((await iterator.next()).value).toMatch(/\S/);
      const next = iterator.next();
      // A new kind makes the API server write about its handlers.
      await life.withClient((client) => client.create(resources.customResourceDefinitions, newKind('wells')));
      expect((await next).value).toMatch(/\S/);
      ending.abort();
      for (;;) if ((await iterator.next()).done === true) break;

      await expect(lines(driver.logs(life.id, 'kube-dns', { signal }))).rejects.toMatchObject({
        name: 'DriverError',
        code: 'UnknownComponent',
        message: expect.stringContaining(server),
      });
    });

    it('starts a component again that was killed, tells of it, and goes on with its log', async () => {
      const [before, untouched] = [await life.serverStartedAt(), await startOf(controllers)];
      const events = eventsOf(driver);
      const ending = new AbortController();
      const following = driver.logs(life.id, server, { follow: true, tailLines: 1, signal: ending.signal });
      const iterator = following[Symbol.asyncIterator]();
      // The log is open when its end has come.
      expect((await iterator.next()).done).not.toBe(true);
      let line = iterator.next();
      await world.crash(life.id, server);
      await events.until(`${server} exited`, `${server} started`, `${server} ready`);
      // Where an address leads to it, that does so a moment later.
      const startedAt = (): Promise<number> => life.serverStartedAt().catch(() => 0);
      await expect.poll(startedAt).toBeGreaterThan(before);
      expect(await settings()).toContain('first');
      const { components } = await driver.observe(life.id);
      const observed = components.find((component) => component.name === server);
      expect(observed).toMatchObject({ state: 'running', lastExit: { at: expect.any(Date) } });
      expect(observed?.restarts).toBeGreaterThanOrEqual(1);
      expect(await startOf(controllers)).toBe(untouched);
      while (!saysVersion(await line)) line = iterator.next();
      expect((await line).done).toBe(false);
      ending.abort();
      for (;;) if ((await iterator.next()).done === true) break;
    });

    prove('partialStop', async () => {
      const before = await life.serverStartedAt();
      const events = eventsOf(driver);
      await driver.stop(life.id, { components: [controllers], signal });
      expect(await stateOf(controllers)).not.toBe('running');
      expect(await stateOf(server)).toBe('running');
      await driver.ensure(life.plan(), { signal });
      expect(await stateOf(controllers)).toBe('running');
      expect(await life.serverStartedAt()).toBe(before);
      expect(events.told).not.toContain(`${controllers} exited`);
    });

    it('takes over with a new driver what runs, and looks after it', async () => {
      const before = await starts();
      // An earlier manager that was killed does not say good-bye; one that still runs would look on.
      await driver.close?.();
      driver = newDriver();
      expect((await driver.observe(life.id)).components.map(({ state }) => state)).toEqual([
        'running',
        'running',
      ]);
      const events = eventsOf(driver);
      await driver.ensure(life.plan(), { signal });
      expect(await starts()).toEqual(before);
      await world.crash(life.id, controllers);
      await events.until(`${controllers} exited`, `${controllers} started`, `${controllers} ready`);
      expect(await life.serverStartedAt()).toBe(before[0]);
      // While they start they end when they do not reach their server, which is about to be replaced.
      await life.withClient((client) =>
        client.create(resources.namespaces, { metadata: { name: 'taken-over' } }),
      );
      await controllersWork('taken-over');
    });

    prove('versionChange', async () => {
      const before = await starts();
      const events = eventsOf(driver);
      const plan = life.plan({ version: world.otherVersion });
      await driver.ensure(plan, { signal });
      await events.until(`${server} ready`, `${controllers} started`, `${controllers} ready`);
      expect(events.told.filter((told) => told.endsWith('exited'))).toEqual([]);
      const after = await starts();
      for (const [i, earlier] of before.entries()) expect(after[i]).toBeGreaterThan(earlier);
      expect(await settings()).toContain('first');

      const unchanged = await starts();
      await driver.ensure(plan, { signal });
      expect(await starts()).toEqual(unchanged);
    });

    prove('partialChange', async () => {
      const before = await starts();
      const extraArgs = { [controllers]: { 'concurrent-gc-syncs': '10' } };
      await driver.ensure(life.plan({ version: world.otherVersion, extraArgs }), { signal });
      const after = await starts();
      expect(after[0]).toBe(before[0]);
      expect(after[1]).toBeGreaterThan(before[1] ?? 0);
    });

    it('replaces the API server while another one serves, at every moment', async () => {
      const before = await life.serverStartedAt();
      const changes = { extraArgs: { [server]: { 'max-requests-inflight': '150' } } };
      const events = eventsOf(driver);
      let isOver = false;
      const asking = (async () => {
        for (let asked = 0; ; asked++) {
          await life.serverStartedAt();
          if (isOver) return asked;
        }
      })();
      asking.catch(() => undefined);
      const surge = await life.surge(changes, portsOfThisMachine);
      await driver.ensure(life.plan(changes), { signal, surge }).finally(() => {
        isOver = true;
      });
      expect(await asking).toBeGreaterThan(0);
      expect(await life.serverStartedAt()).toBeGreaterThan(before);
      expect(events.told.filter((told) => told.endsWith('exited'))).toEqual([]);
      expect((await driver.observe(life.id)).components.map(({ name: component }) => component)).toEqual([
        server,
        controllers,
      ]);
      const after = await starts();
      await driver.ensure(life.plan(changes), { signal, surge });
      expect(await starts()).toEqual(after);
    });

    prove('stop', async () => {
      await makeSettings('second');
      const events = eventsOf(driver);
      await driver.stop(life.id, { signal });
      await expect(life.serverStartedAt()).rejects.toThrow();
      const { components } = await driver.observe(life.id);
      expect(components.filter(({ state }) => state === 'running')).toEqual([]);
      expect(events.told.filter((told) => told.endsWith('exited'))).toEqual([]);
      expect(await driver.list()).toContain(life.id);

      await driver.ensure(life.plan(), { signal });
      expect(await settings()).toEqual(expect.arrayContaining(['first', 'second']));
    });

    prove('failure', async () => {
      // Of one that is asked whether it is ready: one that is not counts as started after half a second.
      const changes = { extraArgs: { [server]: { 'no-such-flag': 'set' } } };
      const before = await life.serverStartedAt();
      const surge = await life.surge(changes, portsOfThisMachine);
      const error = await failure(driver.ensure(life.plan(changes), { signal, surge }));
      expect(error.code).toBe('KeepsExiting');
      expect(error.message).toContain(server);
      expect(error.message).toContain('unknown flag: --no-such-flag');

      await driver.ensure(life.plan(), { signal, surge });
      expect(await stateOf(server)).toBe('running');
      expect(await stateOf(controllers)).toBe('running');
      // It has served all the time.
      expect(await life.serverStartedAt()).toBe(before);
    });

    it('removes everything, and is content when there is nothing', async () => {
      expect(await world.traces(life.id)).not.toEqual([]);
      await driver.remove(life.id, { signal });
      expect(await world.traces(life.id)).toEqual([]);
      expect(await driver.list()).not.toContain(life.id);
      expect(await driver.observe(life.id)).toEqual({ id: life.id, components: [] });
      await driver.remove(life.id, { signal });
      await driver.remove('never-there', { signal });
      await driver.stop('never-there', { signal });
      await world.datastore.removeTenant(life.id);
    });

    it('refuses names that are none', async () => {
      for (const id of ['', '..', 'a/b', 'A']) {
        await expect(driver.remove(id, { signal })).rejects.toMatchObject({ code: 'InvalidName' });
      }
    });

    const because = portsOfThisMachine ? '' : ' (skipped: its API servers have addresses of their own)';
    it.skipIf(!portsOfThisMachine)(`names the port that another process has${because}`, async () => {
      const other = await ConformancePlan.prepare(world, otherId);
      const { bindAddress, bindPort } = other.address;
      const holder = createServer();
      await new Promise<void>((resolve) => holder.listen(bindPort, bindAddress, resolve));
      try {
        const error = await failure(driver.ensure(other.plan(), { signal }));
        expect(error).toMatchObject({ code: 'PortInUse', retryable: true, fields: { port: bindPort } });
      } finally {
        await new Promise((resolve) => holder.close(resolve));
        await driver.remove(other.id, { signal });
        await world.datastore.removeTenant(other.id);
      }
    });

    function newDriver(): HeldDriver {
      const made = world.makeDriver();
      drivers.push(made);
      return made;
    }

    function eventsOf(of: HeldDriver): EventLog {
      const log = new EventLog(of, life.id);
      logs.push(log);
      return log;
    }

    /** When API server and controllers began, in this order. */
    async function starts(): Promise<number[]> {
      return [await life.serverStartedAt(), await startOf(controllers)];
    }

    async function startOf(component: string): Promise<number> {
      const { components } = await driver.observe(life.id);
      const startedAt = components.find((each) => each.name === component)?.startedAt;
      if (startedAt === undefined) throw new Error(`nothing says since when ${component} runs`);
      return startedAt.getTime();
    }

    async function stateOf(component: string): Promise<string | undefined> {
      const { components } = await driver.observe(life.id);
      return components.find((each) => each.name === component)?.state;
    }

    async function makeSettings(called: string): Promise<void> {
      const object: KubeObject = { metadata: { name: called, namespace: 'default' }, data: { a: '1' } };
      await life.withClient((client) => client.create(resources.configMaps, object));
    }

    async function settings(): Promise<string[]> {
      const { items } = await life.withClient((client) =>
        client.list(resources.configMaps, { namespace: 'default' }),
      );
      return items.map(({ metadata }) => metadata.name ?? '');
    }
  });
}
