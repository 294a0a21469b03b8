import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { parseKubeconfig } from '../../kube/index.ts';
import {
  type SuperClusterPlanOptions,
  superClusterKubeconfig,
  superClusterPlan,
  superClusterServer,
} from './super-cluster-plan.ts';

const pair = { certPem: 'certificate', keyPem: 'key' };

function options(more: Partial<SuperClusterPlanOptions> = {}): SuperClusterPlanOptions {
  const serviceAccountKey = { privatePem: 'private', publicPem: 'public' };
  const pki = new Proxy({} as SuperClusterPlanOptions['pki'], {
    get: (_, name) => (name === 'serviceAccountKey' ? serviceAccountKey : pair),
  });
  const ports = {
    'super-cluster': 20_000,
    'super-etcd-client': 20_001,
    'super-etcd-peer': 20_002,
    'super-etcd-metrics': 20_003,
  } as SuperClusterPlanOptions['ports'];
  return {
    versions: { kubernetes: '1.36.3', etcd: '3.7.3', kwok: '0.8.0' },
    pki,
    ports,
    serviceCIDR: '10.96.0.0/16',
    clusterDomain: 'cluster.local',
    advertiseAddress: '192.0.2.10',
    bindAddress: '127.0.0.1',
    isSimulated: true,
    ...more,
  };
}

function server(more: Partial<SuperClusterPlanOptions>) {
  const found = superClusterPlan(options(more)).find(({ name }) => name === 'kube-apiserver');
  if (found === undefined) throw new Error('there is no API server');
  return found;
}

describe('superClusterPlan', () => {
  it('has kwok only where nodes are simulated', () => {
    const names = (isSimulated: boolean) =>
      superClusterPlan(options({ isSimulated })).map(({ name }) => name);
    const real = ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kube-scheduler'];
    expect(names(true)).toEqual([...real, 'kwok']);
    expect(names(false)).toEqual(real);
  });

  it('tells pods where the API server is only where they can reach it', () => {
    expect(server({}).args).toContain('--endpoint-reconciler-type=none');
    const published = server({ bindAddress: '192.0.2.10' });
    expect(published.args).toEqual(
      expect.arrayContaining([
        '--bind-address=192.0.2.10',
        '--advertise-address=192.0.2.10',
        '--endpoint-reconciler-type=lease',
      ]),
    );
    expect(published.probe?.host).toBe('192.0.2.10');
    expect(published.ports).toEqual([{ name: 'https', port: 20_000, host: '192.0.2.10' }]);
  });

  it('is reached where it listens, and on loopback where it listens everywhere', () => {
    const at = (bindAddress: string) => superClusterServer(options({ bindAddress }));
    expect(at('192.0.2.10')).toBe('https://192.0.2.10:20000');
    expect(at('0.0.0.0')).toBe('https://127.0.0.1:20000');
    expect(at('2001:db8::1')).toBe('https://[2001:db8::1]:20000');
    expect(at('::')).toBe('https://[::1]:20000');
    const kubeconfig = superClusterKubeconfig(options({ bindAddress: '192.0.2.10' }), 'me', pair);
    expect(JSON.stringify(parseKubeconfig(kubeconfig))).toContain('https://192.0.2.10:20000');
  });

  it('enforces a Pod Security level where namespaces name none, if asked to', () => {
    const configuration = ({ files }: ReturnType<typeof server>) =>
      files.find(({ path }) => path === 'admission.yaml')?.content;
    expect(configuration(server({}))).toBeUndefined();
    const strict = server({ podSecurity: 'restricted' });
    expect(strict.args).toContain('--admission-control-config-file=${files}/admission.yaml');
    expect(parse(configuration(strict) ?? '')).toMatchObject({
      plugins: [{ configuration: { defaults: { enforce: 'restricted' } } }],
    });
  });

  it('records what the users and groups ask that are named, and nobody else', () => {
    const policy = (plan: ReturnType<typeof server>) =>
      plan.files.find(({ path }) => path === 'audit-policy.yaml')?.content;
    expect(policy(server({}))).toBeUndefined();
    expect(server({}).args.join()).not.toContain('--audit');
    const audited = server({
      audited: { users: ['skerry-syncer'], groups: ['system:serviceaccounts:skerry-system'] },
    });
    expect(audited.args).toContain('--audit-log-path=${data}/audit.log');
    expect(parse(policy(audited) ?? '')).toMatchObject({
      rules: [
        { level: 'Metadata', users: ['skerry-syncer'] },
        { level: 'Metadata', userGroups: ['system:serviceaccounts:skerry-system'] },
        { level: 'None' },
      ],
    });
  });
});
