import type { ChildProcess } from 'node:child_process';
import { mkdirSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import type { ControlPlaneTemplate } from '../api/control-plane-template.ts';
import { annotationKeys } from '../api/labels.ts';
import type { VirtualCluster } from '../api/virtual-cluster.ts';
import { resources } from '../kube/index.ts';
import { itInTestAll } from '../kube/testing/broad.ts';
import { scriptRunBy } from '../scripts/docs-commands.ts';
import { Binaries, defaultCacheDirectory, defaultVersions } from '../vc-manager/binaries/index.ts';
import { RedisServer, whyNoRedis } from '../vc-manager/jobs/testing/redis-server.ts';
import { at } from './harness/checker/view.ts';
import {
  anotherManager,
  changeVersion,
  endManager,
  makeBrokenTemplate,
  processesOf,
  setVersion,
  untilLeads,
} from './harness/managers.ts';
import { pod } from './harness/manifests.ts';
import { componentProcess, type ProcessIdentity, send, suspendComponent } from './harness/processes.ts';
import { pageOf, Reader } from './harness/reader.ts';
import { expectAllServed, whileAsked } from './harness/steady-load.ts';
import { type Tenant, World } from './harness/world.ts';

const running = defaultVersions.kubernetes;
/** Another patch version in name only: its programs are those of the one that is built here. */
const earlier = running.replace(/\d+$/, (patch) => String(Number(patch) - 2));
const withoutRedis = whyNoRedis();

let world: World;

beforeAll(() => {
  world = new World(inject('stack'));
});

afterAll(() => world?.close());

const virtualCluster = <R>(
  name: string,
  what: string,
  answer: (vc: VirtualCluster) => R | undefined | false,
) =>
  world.superCluster.until<R, VirtualCluster>(
    { resource: resources.virtualClusters, namespace: 'default', name, what },
    ([vc]) => (vc === undefined ? undefined : answer(vc)),
  );

const isReady = ({ status }: VirtualCluster): boolean => status?.phase === 'Ready';

describe('jobs of the manager', () => {
  it('can be cancelled and tried again', async () => {
    // Looked for before there is anything to see, so that it cannot be over by then.
    const [{ job, goOn }, created] = await Promise.all([
      virtualCluster('job-cancelled', 'its job', ({ status }) => {
        const current = status?.jobs?.current;
        return current?.step === 'control-plane' && { tenant: status?.id ?? '', job: current.id };
        // It must not end before it is cancelled.
      }).then(async (seen) => ({
        ...seen,
        goOn: await suspendComponent({
          stateDir: world.stateDir,
          id: seen.tenant,
          component: 'kube-apiserver',
        }),
      })),
      world.cli(['create', 'job-cancelled']),
    ]);
    expect(created.exitCode, created.stderr).toBe(0);
    const documented = scriptRunBy(pageOf('docs/jobs.md'), 'test/jobs.test.ts', 'vc-manager jobs cancel', {
      'team-blue': 'job-cancelled',
    });
    const [cancel = '', retry = ''] = documented.split('\n');
    const reader = Reader.of(world);
    const cancelling = reader.run('docs/jobs.md', cancel);
    await virtualCluster(
      'job-cancelled',
      'what is asked for',
      ({ metadata }) => metadata.annotations?.[annotationKeys.cancelJob] === job,
    );
    goOn();
    await cancelling;
    const vc = await world.virtualCluster('job-cancelled');
    expect(vc.status).toMatchObject({ phase: 'Cancelled', jobs: { history: [{ result: 'Cancelled' }] } });
    const { id = '' } = vc.status ?? {};
    expect(await componentProcess(world.stateDir, { id }, 'kube-apiserver')).toBeUndefined();
    await reader.run('docs/jobs.md', retry);
    await virtualCluster('job-cancelled', 'it to be Ready', isReady);
    await (await world.openTenant('job-cancelled')).kubectl('get', 'namespaces');
  });

  it('are shown while they last and afterwards', async () => {
    const { stdout } = await world.cli(['jobs', 'job-cancelled', '-o', 'json']);
    expect(JSON.parse(stdout)).toMatchObject([
      { tenant: 'job-cancelled', kind: 'provision', state: 'Succeeded', attempts: 1 },
      { tenant: 'job-cancelled', kind: 'provision', state: 'Cancelled' },
    ]);
    expect((await world.cli(['jobs'])).stdout).toMatch(/default +job-cancelled +provision +Succeeded/);
    expect((await world.cli(['describe', 'job-cancelled'])).stdout).toMatch(
      /Jobs:\n +NAMESPACE.*\n.*provision/,
    );
    const idle = await world.cli(['jobs', 'cancel', 'job-cancelled', '--yes']);
    expect(idle.exitCode).toBe(6);
    expect(idle.stderr).toContain('nothing is under way');
  });

  it('lead to no version that is older than what has run', async () => {
    for (const [version, what] of [
      ['1.35.0', 'minor version'],
      [earlier, 'patch version'],
    ] as const) {
      const { exitCode, stderr } = await setVersion(world, 'job-cancelled', version);
      expect(exitCode).not.toBe(0);
      expect(stderr).toContain(`cannot be downgraded to an earlier ${what}`);
    }
    expect((await setVersion(world, 'job-cancelled', running)).exitCode).toBe(0);
  });

  it('lead to no version without an API that the tenant uses', async () => {
    const { client } = world.superCluster;
    const packaged = await client.get<ControlPlaneTemplate>(resources.controlPlaneTemplates, {
      name: 'v1-36',
    });
    // The last one before 1.37 that an API server counts as removed there; it is served on request only.
    const [group, api] = ['storage.k8s.io/v1beta1', 'volumeattributesclasses'];
    const components = packaged.spec.components.map((each) =>
      each.name === 'kube-apiserver'
        ? { ...each, args: { ...each.args, 'runtime-config': `${group}=true` } }
        : each,
    );
    const templates = [
      { name: 'serves-beta', spec: { ...packaged.spec, components } },
      { name: 'next-minor', spec: { ...packaged.spec, kubernetesVersion: '1.37.0' } },
    ];
    const upgrade = (...options: string[]) => world.cli(['upgrade', 'job-removed', ...options]);
    const manager = await world.process('vc-manager');
    const setTemplate = (template: string | null, { ref }: Tenant) =>
      client.patch(resources.virtualClusters, ref, { spec: { template } }, { type: 'merge' });
    try {
      for (const { name, spec } of templates)
        await world.superCluster.apply({
          ...{ apiVersion: 'skerry.dev/v1alpha1', kind: 'ControlPlaneTemplate' },
          ...{ metadata: { name }, spec },
        });
      const tenant = await world.createTenant('job-removed', '--template', 'serves-beta');
      // With a template of its own it would stay with that one's minor version. Nobody acts on that it has none.
      send(manager, 'SIGSTOP');
      await setTemplate(null, tenant);
      expect((await upgrade('--dry-run')).stdout).toMatch(
        /from 1\.36\.\d+ to 1\.37\.0 \(dry run\).*\nNo API is in use/,
      );
      await tenant.kubectl('get', '--raw', `/apis/${group}/${api}`);
      const objection = `The tenant uses APIs that 1.37.0 does not have: ${api}.v1beta1.storage.k8s.io.`;
      expect((await upgrade('--dry-run')).stdout).toContain(objection);
      const refused = await upgrade();
      expect([refused.exitCode, refused.stderr]).toEqual([6, expect.stringContaining(objection)]);
      expect(refused.stderr).toContain('nothing was changed');
      expect((await world.virtualCluster('job-removed')).spec?.version).toBeUndefined();
      await setTemplate('serves-beta', tenant);
    } finally {
      send(manager, 'SIGCONT');
      await world.cli(['delete', 'job-removed', '--wait', '--yes', '--ignore-not-found']);
      for (const { name } of templates)
        await client.delete(resources.controlPlaneTemplates, { name }).catch(() => undefined);
    }
  });
});

describe.skipIf(withoutRedis !== undefined)(
  `managers that share jobs through Redis${withoutRedis === undefined ? '' : ` (${withoutRedis})`}`,
  () => {
    const names = ['first', 'second'] as const;
    const managers = new Map<string, ChildProcess>();
    let redis: RedisServer;
    let stacks: ProcessIdentity;
    let cache: string;

    beforeAll(async () => {
      redis = await RedisServer.start();
      cache = await cacheWithStandIn(world.file('cache'));
      stacks = await world.process('vc-manager');
      // Not killed: it would be started again, with the same name, and lead on.
      send(stacks, 'SIGSTOP');
      managers.set('first', await manager('first'));
      await untilLeads(world, 'first');
      await startMissing();
    });

    afterAll(async () => {
      await Promise.all([...managers.values()].map((child) => endManager(child, 'SIGTERM')));
      if (stacks !== undefined) send(stacks, 'SIGCONT');
      await redis?.stop();
    });

    const manager = (name: string): Promise<ChildProcess> =>
      anotherManager(world, name, { options: [`--redis=${redis.url}`], env: { SKERRY_CACHE: cache } });

    const startMissing = async (): Promise<void> => {
      for (const name of names) {
        const child = managers.get(name);
        const runs = child !== undefined && child.exitCode === null && child.signalCode === null;
        if (!runs) managers.set(name, await manager(name));
      }
    };

    /** Kills the one that is at work on this tenant, and returns the name of the other one: who leads may have changed. */
    const killHolder = async (tenant: string): Promise<string> => {
      const { status } = await world.virtualCluster(tenant);
      const { holder } = status?.jobs?.current ?? {};
      const [other = '', ...none] = names.filter((name) => name !== holder);
      if (none.length > 0) throw new Error(`${holder ?? 'nobody'} is at work on ${tenant}`);
      await endManager(managers.get(holder ?? ''), 'SIGKILL');
      return other;
    };

    it('change the version of a running tenant while a client is at work, though one of them is killed; one build stands in for two patch versions', async () => {
      const whileEarlier = async (tenant: Tenant): Promise<void> => {
        await tenant.apply(pod('before', 'web'));
        const web = { resource: resources.pods, namespace: 'before', name: 'web', what: 'the pod to run' };
        await tenant.until(web, ([found]) => at(found, 'status', 'phase') === 'Running');
      };
      let other = '';
      const whileHeld = async (): Promise<void> => {
        other = await killHolder('job-version');
      };
      await changeVersion(world, 'job-version', { from: earlier, to: running, whileEarlier, whileHeld });
      const { status } = await world.virtualCluster('job-version');
      expect(status?.jobs?.history?.[0]).toMatchObject({ kind: 'version-change', attempts: 2 });
      await untilLeads(world, other);
    });

    itInTestAll(
      'do without Redis while it is gone; others notice nothing, also when it comes back empty',
      async () => {
        await undisturbed(await world.openTenant('job-version'), 'Redis killed, and back empty', async () => {
          await redis.kill();
          const { exitCode, stdout } = await world.cli(['sleep', 'job-cancelled', '--wait']);
          expect([exitCode, stdout.trim()]).toEqual([0, 'job-cancelled is asleep']);
          // That no job is lost then, and the work shared again, the tests of the runner show.
          await redis.start();
        });
      },
    );

    itInTestAll(
      'finish a new tenant, with the other one, though one of them is killed meanwhile',
      async () => {
        await startMissing();
        let other = '';
        await undisturbed(await world.openTenant('job-version'), 'the manager killed', async () => {
          const [{ id, goOn }, created] = await Promise.all([
            virtualCluster('job-relay', 'its job', ({ status }) => {
              const current = status?.jobs?.current;
              return current?.step === 'control-plane' && { tenant: status?.id ?? '', id: current.id };
            }).then(async ({ tenant, id }) => ({
              id,
              goOn: await suspendComponent({
                stateDir: world.stateDir,
                id: tenant,
                component: 'kube-apiserver',
              }),
            })),
            world.cli(['create', 'job-relay']),
          ]);
          expect(created.exitCode, created.stderr).toBe(0);
          const killedAt = performance.now();
          other = await killHolder('job-relay');
          goOn();
          const vc = await virtualCluster('job-relay', 'it to be Ready', (found) =>
            isReady(found) ? found : undefined,
          );
          console.log(
            `usable ${Math.round((performance.now() - killedAt) / 100) / 10} s after its manager was killed`,
          );
          expect(vc.status?.jobs?.history).toMatchObject([
            { id, kind: 'provision', result: 'Succeeded', attempts: 2 },
          ]);
        });
        await untilLeads(world, other);
        await (await world.openTenant('job-relay')).kubectl('get', 'namespaces');
      },
    );

    itInTestAll(
      'go back from a version that does not start, though one of them is killed meanwhile',
      async () => {
        await startMissing();
        const { client } = world.superCluster;
        const template = 'job-broken';
        await makeBrokenTemplate(world, template);
        try {
          const tenant = await world.createTenant('job-back', '--version', earlier);
          const before = await world.process('kube-apiserver', tenant);
          const replacing = virtualCluster('job-back', 'its API server to be replaced', ({ status }) => {
            const current = status?.jobs?.current;
            return current?.kind === 'version-change' && current.replacing === true && current;
          });
          const wanted = { version: running, template };
          await client.patch(resources.virtualClusters, tenant.ref, { spec: wanted }, { type: 'merge' });
          const { id } = await replacing;
          await killHolder('job-back');
          const { status } = await virtualCluster(
            'job-back',
            'the way back',
            (vc) => isReady(vc) && vc.status?.jobs?.held?.why !== undefined && vc,
          );
          expect(status?.version).toBe(earlier);
          expect(status?.jobs?.history?.[0]).toMatchObject({
            ...{ id, kind: 'version-change', result: 'Failed', attempts: 2 },
          });
          // Where there is a gateway the one that has run was never stopped.
          expect(await world.process('kube-apiserver', tenant)).toEqual(before);
          expect(await componentProcess(world.stateDir, tenant, 'kube-apiserver-beside')).toBeUndefined();
          await tenant.kubectl('get', 'namespaces');
        } finally {
          await world.cli(['delete', 'job-back', '--wait', '--yes', '--ignore-not-found']);
          await client.delete(resources.controlPlaneTemplates, { name: template }).catch(() => undefined);
        }
      },
    );
  },
);

/** A cache in which the programs of one patch version stand in for those of another, at a path of their own. */
async function cacheWithStandIn(cache: string): Promise<string> {
  const binaries = new Binaries({ cacheDir: defaultCacheDirectory(process.env), env: process.env });
  const { signal } = new AbortController();
  for (const name of ['kube-apiserver', 'kube-controller-manager'] as const) {
    const { path } = await binaries.ensure({ name, version: running }, { signal });
    const platform = dirname(path);
    for (const version of [running, earlier]) {
      const place = join(cache, 'binaries', name, version);
      mkdirSync(place, { recursive: true });
      symlinkSync(platform, join(place, platform.split('/').at(-1) ?? ''));
    }
  }
  return cache;
}

/** A client asks twenty times a second meanwhile: no request may fail, and no process and no pod be another one afterwards. */
async function undisturbed(tenant: Tenant, what: string, work: () => Promise<void>): Promise<void> {
  const before = [await processesOf(world, tenant), await podsOf(tenant)];
  expectAllServed(await whileAsked(tenant.kubeconfig, what, work));
  expect([await processesOf(world, tenant), await podsOf(tenant)]).toEqual(before);
}

async function podsOf(tenant: Tenant): Promise<unknown[]> {
  const { items } = await tenant.client.list(resources.pods, { namespace: 'before' });
  return items.map(({ metadata: { name, uid }, status }) => ({ name, uid, status }));
}
