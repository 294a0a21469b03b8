import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import type { ComponentPlan, ControlPlanePlan } from '../../control-plane/plan.ts';
import type { DriverError } from '../errors.ts';
import { composeFile, containerSpec } from './compose-file.ts';

const server: ComponentPlan = {
  name: 'kube-apiserver',
  binary: { name: 'kube-apiserver', version: '1.36.3' },
  args: ['--tls-private-key-file=${files}/apiserver.key', '--price=$5'],
  env: { GOGC: '50' },
  files: [{ path: 'apiserver.key', content: 'SECRET', mode: 0o600 }],
  ports: [{ name: 'kube-apiserver', port: 21_000, host: '127.0.0.1' }],
  dependsOn: [],
  stopTimeoutMs: 20_000,
};
const etcd: ComponentPlan = {
  ...server,
  name: 'etcd',
  binary: { name: 'etcd', version: '3.7.3' },
  args: ['--data-dir=${data}/etcd'],
  env: {},
  files: [],
  ports: [],
};

function rendered(...components: ComponentPlan[]): { text: string; services: Record<string, unknown> } {
  const plan: ControlPlanePlan = { id: 'blue', labels: { 'skerry.dev/virtualcluster': 'team' }, components };
  const targets = components.map((component) => containerSpec('blue', component));
  const text = composeFile(plan, targets);
  return { text, ...(parse(text) as { services: Record<string, unknown> }) };
}

describe('composeFile', () => {
  it('gives each component a container that may do nothing but its work', () => {
    const { services } = rendered(server);
    expect(services['kube-apiserver']).toMatchObject({
      image: 'registry.k8s.io/kube-apiserver:v1.36.3',
      entrypoint: ['kube-apiserver'],
      network_mode: 'host',
      restart: 'unless-stopped',
      stop_grace_period: '20000ms',
      user: '65532:65532',
      read_only: true,
      cap_drop: ['ALL'],
      // Without it the kernel refuses upstream's program, which bears it.
      cap_add: ['NET_BIND_SERVICE'],
      security_opt: ['no-new-privileges:true'],
      environment: { GOGC: '50' },
    });
    expect(services['kube-apiserver']).not.toHaveProperty('depends_on');
  });

  it('has programs run with the group by which their connections are judged', () => {
    const plan: ControlPlanePlan = { id: 'blue', labels: {}, components: [server] };
    const target = containerSpec('blue', server, { group: 1_879_069_192 });
    expect(parse(composeFile(plan, [target]))).toMatchObject({
      services: { 'kube-apiserver': { user: '65532:1879069192', cap_drop: ['ALL'] } },
    });
    // What is started anew because of its group has the files that it had.
    expect(target.hash).toBe(containerSpec('blue', server).hash);
  });

  it('limits a container as its component says, and no other', () => {
    const limits = { memory: '1536Mi', cpu: '500m' };
    const requests = { cpu: '50m' };
    const { services } = rendered({ ...server, resources: { limits, requests } }, etcd);
    expect(services['kube-apiserver']).toMatchObject({
      mem_limit: String(1536 * 1024 ** 2),
      cpus: 0.5,
      cpu_shares: 51,
    });
    expect(services['etcd']).not.toHaveProperty('cpu_shares');
    expect(services['etcd']).not.toHaveProperty('mem_limit');
    expect(services['etcd']).not.toHaveProperty('cpus');
  });

  it.each([
    [1, '50m', 51],
    [4, '50m', 205],
    [1000, '50m', 512],
    [1000, '1m', 512],
    [4, '2', 2048],
    [1, '100u', 2],
  ])(
    'weight %s on a request of %s has a share of %s, which no weight raises above half of one without a request',
    (weight, cpu, cpuShares) => {
      const component = { ...server, resources: { requests: { cpu } } };
      const one = containerSpec('blue', component, { weight });
      expect(one.cpuShares).toBe(cpuShares);
      expect(one.hash).toBe(containerSpec('blue', component).hash);
      expect(containerSpec('blue', server, { weight }).cpuShares).toBeUndefined();
    },
  );

  it('fills paths in, and keeps dollar signs from being taken for variables', () => {
    const { services } = rendered(server);
    expect(services['kube-apiserver']).toMatchObject({
      command: ['--tls-private-key-file=/skerry/files/apiserver.key', '--price=$$5'],
    });
  });

  it('holds no secret, and mounts files read-only and data only where a component has some', () => {
    const { text, services } = rendered(server, { ...etcd, dependsOn: ['kube-apiserver'] });
    expect(text).not.toContain('SECRET');
    expect(services['kube-apiserver']).toMatchObject({
      volumes: [{ target: '/skerry/files', read_only: true }],
    });
    expect(services['etcd']).toMatchObject({
      command: ['--data-dir=/skerry/data/etcd'],
      depends_on: ['kube-apiserver'],
      volumes: [{ source: 'skerry-blue_etcd-data', target: '/skerry/data' }],
    });
    expect(services['etcd']).not.toHaveProperty('cap_add');
  });

  it('names another volume when a file changes, and the same one when nothing does', () => {
    const volume = (content: string): string | undefined =>
      containerSpec('blue', { ...server, files: [{ path: 'apiserver.key', content, mode: 0o600 }] }).volumes
        .files;
    expect(volume('one')).toBe(volume('one'));
    expect(volume('one')).not.toBe(volume('two'));
  });

  it('takes another registry without a restart', () => {
    const [here, there] = [
      containerSpec('blue', server),
      containerSpec('blue', server, { registry: 'mirror.example/k8s' }),
    ];
    expect(there.image).toBe('mirror.example/k8s/kube-apiserver:v1.36.3');
    expect(there.hash).toBe(here.hash);
  });

  it('refuses what has no image', () => {
    const refuse = (): unknown => containerSpec('blue', { ...server, binary: { command: '/bin/true' } });
    expect(refuse).toThrow(
      expect.objectContaining<Partial<DriverError>>({ code: 'NoImage', retryable: false }),
    );
    expect(refuse).toThrow(/--driver process/);
  });
});
