import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Connection, KubeClient, type KubeObject, resources } from '../../../kube/index.ts';
import { Binaries, defaultCacheDirectory, defaultVersions } from '../../binaries/index.ts';
import type { ControlPlanePlan } from '../../control-plane/plan.ts';
import { renderPlan } from '../../control-plane/render-plan.ts';
import { loadTemplates, selectTemplate } from '../../control-plane/template.ts';
import { EtcdAdmin } from '../../etcd/admin.ts';
import { datastorePlan } from '../../local-stack/datastore-plan.ts';
import { stackPorts } from '../../local-stack/stack-ports.ts';
import { findCgroups } from '../../os/cgroups.ts';
import { freePort } from '../../os/network.ts';
import { ensureEncryption, ensureManagerPki, ensureTenantPki, type TenantPki } from '../../pki/index.ts';
import { ProcessDriver } from './process-driver.ts';

const { signal } = new AbortController();
const id = 'real';
const groups = findCgroups();

describe('ProcessDriver with real binaries', () => {
  let directory: string;
  let driver: ProcessDriver;
  let plan: ControlPlanePlan;
  let pki: TenantPki;
  let port: number;

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'skerry-real-'));
    const binaries = new Binaries({
      cacheDir: defaultCacheDirectory(process.env),
      env: process.env,
      offline: true,
    });
    driver = new ProcessDriver({ root: directory, binaries, groups });
    const now = new Date();
    const manager = await ensureManagerPki(join(directory, 'pki'), { now });
    const ports = await stackPorts(join(directory, 'ports.json'));
    const components = datastorePlan({
      etcdVersion: defaultVersions.etcd,
      pki: manager,
      ports,
      unsafeNoFsync: true,
    });
    await driver.ensure({ id: 'datastore', labels: {}, components }, { signal });
    const endpoint = `https://127.0.0.1:${ports['datastore-client']}`;
    const etcd = new EtcdAdmin({
      endpoint: `https://127.0.0.1:${ports['datastore-http']}`,
      ca: manager.etcdCa.certPem,
      cert: manager.etcdManager.certPem,
      key: manager.etcdManager.keyPem,
      rootPassword: manager.etcdRootPassword,
    });
    await etcd.ensureTenant(id);
    await etcd.close();
    const clusterDomain = 'cluster.local';
    const { etcdCa, kubeletProxyCa } = manager;
    ({ pki } = await ensureTenantPki(undefined, {
      id,
      clusterDomain,
      hosts: [],
      etcdCa,
      now,
    }));
    const choice = selectTemplate(await loadTemplates(), { defaultVersion: defaultVersions.kubernetes });
    port = await freePort({ host: '127.0.0.1', range: [21_000, 21_999] });
    plan = renderPlan({
      id,
      template: choice.template.spec,
      version: choice.version,
      serviceCIDR: '10.112.4.0/22',
      clusterDomain,
      ports: { 'kube-apiserver': port },
      bindAddress: '127.0.0.1',
      advertiseAddress: '192.0.2.10',
      etcd: { endpoint },
      pki,
      encryption: ensureEncryption(undefined, { wasStarted: false }),
      etcdCa: etcdCa.certPem,
      kubeletCa: kubeletProxyCa.certPem,
    });
  }, 120_000);

  afterAll(async () => {
    for (const each of [id, 'datastore']) await driver.remove(each, { signal });
    await driver.close();
    await rm(directory, { recursive: true });
  });

  it('runs a control plane that the template describes, and brings its API server back when it is killed', async () => {
    await driver.ensure(plan, { signal });
    const connection = new Connection({
      server: `https://127.0.0.1:${port}`,
      ca: pki.servingCa.certPem,
      cert: pki.leafs.manager.certPem,
      key: pki.leafs.manager.keyPem,
    });
    try {
      const client = new KubeClient(connection);
      // The server makes it a moment after it is ready.
      await expect
        .poll(() => client.get(resources.namespaces, { name: 'default' }).catch(() => undefined))
        .toBeDefined();
      const settings: KubeObject = { metadata: { name: 'kept', namespace: 'default' }, data: { a: '1' } };
      await client.create(resources.configMaps, settings);
      const before = await pidOf('kube-apiserver');
      expect(before).toBeGreaterThan(0);
      process.kill(before, 'SIGKILL');
      await started('kube-apiserver');
      await driver.ensure(plan, { signal });
      expect(await pidOf('kube-apiserver')).not.toBe(before);
      const kept = await client.get(resources.configMaps, { namespace: 'default', name: 'kept' });
      expect(kept['data']).toEqual({ a: '1' });
    } finally {
      await connection.close();
    }
  }, 120_000);

  const limits =
    'has the limits of its template, also after a start anew (only where control groups can be made)';
  it.skipIf(groups === undefined)(limits, async () => {
    const of = async (name: string): Promise<string> => readFile(`/proc/${await pidOf(name)}/cgroup`, 'utf8');
    expect(await of('kube-apiserver')).toMatch(/\/skerry-[0-9a-f]{8}-real-kube-apiserver$/m);
    expect(await of('kube-controller-manager')).toMatch(
      /\/skerry-[0-9a-f]{8}-real-kube-controller-manager$/m,
    );
  });

  it('answers the unknown only about its health', async () => {
    const connection = new Connection({ server: `https://127.0.0.1:${port}`, ca: pki.servingCa.certPem });
    try {
      const client = new KubeClient(connection);
      // It may say for a moment that it has not heard from etcd.
      await expect.poll(() => client.raw('GET', '/readyz').catch(String)).toBe('ok');
      await expect(client.raw('GET', '/version')).rejects.toMatchObject({ code: 401 });
    } finally {
      await connection.close();
    }
  });

  async function pidOf(name: string): Promise<number> {
    const { components } = await driver.observe(id);
    return components.find((component) => component.name === name)?.pid ?? 0;
  }

  function started(name: string): Promise<void> {
    return new Promise((resolve) => {
      const stop = driver.watch((_id, component, what) => {
        if (component !== name || what !== 'started') return;
        stop();
        resolve();
      });
    });
  }
});
