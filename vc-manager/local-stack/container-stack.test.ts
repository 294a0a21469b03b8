import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { imageOf } from '../drivers/images.ts';
import { ContainerStack, defaultContainerPorts } from './container-stack.ts';

const { signal } = new AbortController();
const settings = { nodes: 3, advertiseAddress: '192.0.2.1', ports: defaultContainerPorts };

interface Service {
  image: string;
  entrypoint?: string[];
  command?: string[];
  environment?: Record<string, string>;
  user?: string;
  read_only?: boolean;
  cap_drop?: string[];
  cap_add?: string[];
  privileged?: boolean;
  network_mode?: string;
  volumes?: string[];
}

/** Docker-compose.yml with nothing set, so that each variable has its default. */
async function composeFile(): Promise<Record<string, Service>> {
  const text = await readFile(join(import.meta.dirname, '..', '..', 'docker-compose.yml'), 'utf8');
  const settled = text.replace(/\$\{\w+:-([^}]*)\}/g, '$1');
  return (parse(settled, { merge: true }) as { services: Record<string, Service> }).services;
}

describe('ContainerStack', () => {
  let stateDir: string;
  let stack: ContainerStack;

  beforeEach(async () => {
    stateDir = await mkdtemp(join(tmpdir(), 'skerry-containers-'));
    stack = new ContainerStack({ stateDir });
  });

  afterEach(() => rm(stateDir, { recursive: true }));

  it('has docker-compose.yml run exactly what the local stack would, on the images of the same versions', async () => {
    await stack.prepare(settings);
    const { plan } = await stack.plan();
    const services = await composeFile();
    const seen = (name: string, text: string) =>
      stack.filledIn(name, text).replaceAll(stateDir, '/var/lib/skerry');
    for (const { name, binary, args, env } of plan.components) {
      if ('command' in binary) continue;
      expect(services[name], name).toMatchObject({
        image: imageOf(binary),
        command: args.map((each) => seen(name, each)),
      });
      expect(services[name]?.entrypoint?.[0], name).toMatch(new RegExp(`/${binary.name}$`));
      const environment = Object.fromEntries(
        Object.entries(env).map(([key, value]) => [key, seen(name, value)]),
      );
      expect(services[name]?.environment ?? {}, name).toEqual(environment);
    }
  });

  it('has no service of docker-compose.yml that may more than it must', async () => {
    for (const [name, service] of Object.entries(await composeFile())) {
      expect(service, name).toMatchObject({
        user: '65532:65532',
        read_only: true,
        cap_drop: ['ALL'],
        network_mode: 'host',
      });
      expect(service.privileged, name).toBeUndefined();
      // Upstream's program bears it as a file capability: without it not even its version can be asked for.
      const executesApiServers = ['kube-apiserver', 'tenants', 'vc-manager', 'vc-manager-2'].includes(name);
      expect(service.cap_add, name).toEqual(executesApiServers ? ['NET_BIND_SERVICE'] : undefined);
    }
  });

  it('fills the places in, lets only the owner read, and changes nothing when it is prepared again', async () => {
    await stack.prepare(settings);
    const path = join(stateDir, 'stack', 'kube-scheduler', 'files', 'scheduler.yaml');
    const kubeconfig = join(stateDir, 'stack', 'kube-scheduler', 'files', 'kubeconfig');
    expect(await readFile(path, 'utf8')).toContain(kubeconfig);
    const before = await readFile(kubeconfig, 'utf8');
    for (const name of await readdir(join(stateDir, 'stack'), { recursive: true })) {
      const { mode } = await stat(join(stateDir, 'stack', name));
      expect(mode & 0o077, name).toBe(0);
    }
    await new ContainerStack({ stateDir }).prepare(settings);
    expect(await readFile(kubeconfig, 'utf8')).toBe(before);
  });

  it('gives nobody but the manager the keys of an authority', async () => {
    await stack.prepare(settings);
    const names = await readdir(join(stateDir, 'stack'), { recursive: true });
    expect(names.filter((name) => /ca\.key$/.test(name))).toEqual([]);
    expect(names).toContain('vc-syncer/files/super-cluster.kubeconfig');
  });

  it('has manager and syncer come with kubeconfigs of their own, and the syncer see nothing else', async () => {
    await stack.prepare(settings);
    const services = await composeFile();
    for (const [name, user] of [
      ['vc-manager', 'skerry-manager'],
      ['vc-manager-2', 'skerry-manager'],
      ['vc-syncer', 'skerry-syncer'],
      ['vc-syncer-2', 'skerry-syncer'],
    ] as const) {
      const argument = services[name]?.command?.find((each) => each.startsWith('--kubeconfig=')) ?? '';
      const path = argument.replace('--kubeconfig=/var/lib/skerry', stateDir);
      const { contexts } = parse(await readFile(path, 'utf8')) as {
        contexts: { context: { user: string } }[];
      };
      expect(
        contexts.map(({ context }) => context.user),
        name,
      ).toEqual([user]);
    }
    for (const name of ['vc-syncer', 'vc-syncer-2'])
      expect(services[name]?.volumes, name).toEqual(['syncer:/var/lib/skerry/stack/vc-syncer:ro']);
  });

  it('refuses a port for two, before anything is written', async () => {
    const ports = { ...defaultContainerPorts, 'datastore-client': defaultContainerPorts['super-cluster'] };
    await expect(stack.prepare({ ...settings, ports })).rejects.toThrow('super-cluster and datastore-client');
    expect(await readdir(stateDir)).toEqual([]);
  });

  it('says what to do when nothing was prepared, or what is waited for is unknown', async () => {
    await expect(stack.wait(['etcd'], signal)).rejects.toThrow('container-stack prepare');
    await stack.prepare(settings);
    await expect(stack.wait(['etdc'], signal)).rejects.toThrow('choose from datastore, etcd, kube-apiserver');
  });
});
