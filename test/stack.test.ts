import { existsSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { connectionFromSecret, resources } from '../kube/index.ts';
import { scriptRunBy } from '../scripts/docs-commands.ts';
import { answerTo } from './harness/certificates.ts';
import { at } from './harness/checker/view.ts';
import { patienceMs, patiently } from './harness/poll.ts';
import { identify, isAlive, kill, type ProcessIdentity, processesOf } from './harness/processes.ts';
import { pageOf, Reader } from './harness/reader.ts';
import { makeRunDirectory, removeRun, stateDirOf } from './harness/stack.ts';
import { type Tenant, World } from './harness/world.ts';

const root = join(import.meta.dirname, '..');

/** A stack of its own: what is done to it here, the other suites could not bear. */
describe('the local stack', () => {
  const directory = makeRunDirectory();
  const stateDir = stateDirOf(directory);
  let world: World;
  let reader: Reader;
  let tenant: Tenant;
  let podsBefore: unknown;
  /** To the dashboard. */
  let link: string | undefined;

  beforeAll(async () => {
    const { stdout } = await start('README.md', '--tenants 1 --nodes 2');
    expect(stdout).toContain('tenant-1');
    link = /http:\S+#link=\S+/.exec(stdout)?.[0];
    world = new World({
      stateDir,
      superKubeconfig: readFileSync(join(stateDir, 'super-cluster', 'admin.kubeconfig'), 'utf8'),
      kubectl: inject('stack').kubectl,
    });
    reader = Reader.of(world);
    tenant = await world.openTenant('tenant-1');
  });

  afterAll(async () => {
    await world?.close().catch(() => undefined);
    await removeRun(directory);
  });

  /** Always in the same home directory: what the stack runs with depends on it. */
  const inHome = (what: string, script: string) =>
    new Reader(join(directory, 'home'), {}, { SKERRY_STATE: stateDir }).run(what, script, root);

  const up = () => inHome('up', 'vc-manager up --detach --unsafe-no-fsync');

  /** By what this page says to start with; the packages that the tests run with are those of "npm ci". */
  const start = (page: 'README.md' | 'docs/quickstart.md', options = '') => {
    const script = scriptRunBy(pageOf(page), 'test/stack.test.ts', 'npm ci && npm start', {
      'npm ci && ': '',
      'npm start': `npm start -- --detach --unsafe-no-fsync ${options}`,
    });
    return inHome(page, script);
  };

  const supervisor = (): ProcessIdentity => {
    const { pid } = JSON.parse(readFileSync(join(stateDir, 'supervisor.json'), 'utf8')) as { pid: number };
    const found = identify(pid);
    if (found === undefined) throw new Error(`the supervisor ${pid} does not run`);
    return found;
  };

  const components = [
    ...['etcd', 'kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kwok', 'simulated-storage'],
    ...['datastore', 'vc-manager', 'vc-syncer'],
  ];
  const running = async (): Promise<ProcessIdentity[]> => [
    ...(await Promise.all(components.map((component) => world.process(component)))),
    await world.process('kube-apiserver', tenant),
    await world.process('kube-controller-manager', tenant),
  ];

  const pods = async (): Promise<unknown> =>
    (await tenant.client.list(resources.pods, { namespace: 'shop' })).items.map((pod) => [
      pod.metadata.uid,
      at(pod, 'status', 'phase'),
      at(pod, 'status', 'podIP'),
    ]);

  it('comes up with a tenant whose sample runs', async () => {
    // "up" waits for them, but on a slow machine not to the end.
    await tenant.until(
      { resource: resources.pods, namespace: 'shop', what: 'the four pods of the sample to run' },
      (all) => all.length === 4 && all.every((pod) => at(pod, 'status', 'phase') === 'Running'),
    );
    await world.expectAgreement();
    podsBefore = await pods();
    const nodes = (await tenant.client.list(resources.nodes)).items;
    expect(nodes.map(({ metadata }) => metadata.labels?.['skerry.dev/simulated'])).toEqual(['true', 'true']);
  });

  it('is looked at, and given another tenant, as README says', async () => {
    const script = scriptRunBy(pageOf('README.md'), 'test/stack.test.ts', 'npx vc-manager list');
    const { stdout } = await reader.run('README.md', script);
    expect(stdout).toMatch(/^default +tenant-1 +Ready/m);
    const { items } = await tenant.client.list(resources.pods, { namespace: 'shop' });
    // In the tenant, and where it runs.
    for (const { metadata } of items) expect(stdout.split(` ${metadata.name} `)).toHaveLength(3);
  });

  it('gives another installation a tenant by a snapshot', async () => {
    const file = world.file('tenant-1.snapshot');
    const { exitCode, stderr } = await world.cli(['snapshot', 'tenant-1', '--file', file]);
    expect(exitCode, stderr).toBe(0);
    const other = new World(inject('stack'));
    try {
      const copy = await other.createTenant('from-elsewhere', '--from', file);
      const ofSample = { resource: resources.pods, namespace: 'shop', what: 'the pods of the sample to run' };
      const running = await copy.until(ofSample, (all) => {
        const found = all.filter((each) => at(each, 'status', 'phase') === 'Running');
        return found.length === 4 && all.length === 4 && found;
      });
      // Its own, in its own super cluster.
      const earlier = (podsBefore as string[][]).map(([uid]) => uid);
      expect(running.filter(({ metadata }) => earlier.includes(metadata.uid ?? ''))).toEqual([]);
      await other.expectAgreement();
      const { cert, key } = connectionFromSecret(tenant.kubeconfig);
      expect(await answerTo({ ...connectionFromSecret(copy.kubeconfig), cert, key })).toBe(401);
    } finally {
      await other.close();
    }
    expect(await pods()).toEqual(podsBefore);
  });

  it('serves the dashboard by the link that it prints', async () => {
    const { origin, hash } = new URL(link ?? '');
    const signedIn = await fetch(`${origin}/api/sign-in`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ link: hash.replace('#link=', '') }),
    });
    const [cookie = ''] = signedIn.headers.getSetCookie();
    const answer = await fetch(`${origin}/api/tenants`, { headers: { cookie } });
    expect(await answer.json()).toMatchObject({ rows: [{ name: 'tenant-1', phase: 'Ready' }] });
  });

  it('runs on when the one who looks after it is killed, and the next one takes it over as it is', async () => {
    const before = await running();
    await kill(supervisor());
    for (const process of before) expect(isAlive(process)).toBe(true);
    await up();
    expect(await running()).toEqual(before);
    await world.expectAgreement();
    expect(await pods()).toEqual(podsBefore);
  });

  it('starts again what dies', async () => {
    const before = await world.process('kube-scheduler');
    await kill(before);
    await tenant.kubectl('-n', 'shop', 'scale', 'deployment/web', '--replicas=4');
    await tenant.kubectl('-n', 'shop', 'rollout', 'status', 'deployment/web', patiently);
    expect((await world.process('kube-scheduler')).pid).not.toBe(before.pid);
    await world.expectAgreement();
    podsBefore = await pods();
  });

  it('is stopped by "down" to the last process, and comes back with the tenant as it was', async () => {
    const before = await running();
    const [down = '', ...rest] = scriptRunBy(
      pageOf('docs/operating.md'),
      'test/stack.test.ts',
      'vc-manager down',
      {
        '~/.local/state skerry': `${dirname(stateDir)} ${basename(stateDir)}`,
        'vc-manager up': 'vc-manager up --detach --unsafe-no-fsync',
      },
    ).split('\n');
    await reader.run('docs/operating.md', down);
    for (const process of before) expect(isAlive(process)).toBe(false);
    expect([...processesOf(stateDir).values()]).toEqual([]);
    expect(existsSync(join(stateDir, 'control-planes', tenant.id))).toBe(true);
    const asked = await world.cli(['list']);
    expect(asked.exitCode).toBe(5);

    const { stdout } = await reader.run('docs/operating.md', rest.join('\n'));
    expect(stdout).toContain('tenant-1');
    const { stdout: kept } = await reader.run('tar', 'tar tzf skerry.tar.gz');
    for (const part of ['datastore/pki/', 'stack/data/datastore/', `control-planes/${tenant.id}/`])
      expect(kept).toContain(`${basename(stateDir)}/${part}`);
    // Programs that start before their servers ask for them ever more rarely.
    await world.expectAgreement(undefined, patienceMs);
    expect(await pods()).toEqual(podsBefore);
  });

  it('is taken up again when everything was killed at once', async () => {
    const before = [supervisor(), ...(await running())];
    await Promise.all(before.map((process) => kill(process)));
    await start('docs/quickstart.md');
    await world.expectAgreement(undefined, patienceMs);
    await tenant.kubectl('-n', 'shop', 'scale', 'deployment/web', '--replicas=2');
    await tenant.kubectl('-n', 'shop', 'rollout', 'status', 'deployment/web', patiently);
    await world.expectAgreement();
  });

  it('is removed by "down --purge", and nothing is left', async () => {
    const before = [supervisor(), ...(await running())];
    const { exitCode, stderr } = await world.cli(['down', '--purge']);
    expect(exitCode, stderr).toBe(0);
    for (const process of before) expect(isAlive(process)).toBe(false);
    expect([...processesOf(stateDir).values()]).toEqual([]);
    expect(existsSync(stateDir)).toBe(false);
  });
});
