import { describe, expect, it } from 'vitest';
import type { Cli } from '../context.ts';
import { Captured } from '../testing/captured.ts';
import { commandName, quoted, renderSummary, type UpSummary } from './summary.ts';

const summary: UpSummary = {
  superCluster: 'https://127.0.0.1:20100',
  isLocal: true,
  tenants: [
    {
      namespace: 'default',
      name: 'tenant-1',
      phase: 'Ready',
      version: '1.36.3',
      endpoint: 'https://127.0.0.1:21000',
      hasSamples: true,
    },
  ],
  gatewayPort: 22_203,
  dashboard: 'http://127.0.0.1:22205/#link=secret',
  metricsUrl: 'http://127.0.0.1:22000/metrics',
  stateDir: '/state',
  kubectl: '/cache/kubectl',
  pid: 7,
};

function render(changes: Partial<UpSummary> = {}, env: Cli['env'] = {}): string {
  const cli = { env, stdout: new Captured() } as unknown as Cli;
  return renderSummary({ ...summary, ...changes }, { command: 'vc-manager', stopHint: 'Ctrl-C stops.' }, cli);
}

describe('renderSummary', () => {
  it('tells what runs where, and commands with real names', () => {
    const text = render();
    for (const part of [
      'https://127.0.0.1:20100',
      'http://127.0.0.1:22000/metrics',
      '/state',
      'vc-manager kubeconfig tenant-1 > tenant-1.kubeconfig',
      'get all,pvc -n shop',
      'vc-manager kubeconfig --super-cluster',
      'Ctrl-C stops.',
    ]) {
      expect(text).toContain(part);
    }
  });

  it('names the kubectl of the cache where there is none on the path', () => {
    expect(render({}, { PATH: '/nowhere' })).toContain('/cache/kubectl --kubeconfig tenant-1.kubeconfig');
  });

  it('does without tenants, samples and a local super cluster', () => {
    const text = render({ tenants: [], isLocal: false });
    expect(text).not.toMatch(/TENANT|shop|--super-cluster/);
    expect(text).toContain('vc-manager create team-blue --wait');
  });

  it('names what there is: the tenant that has the samples, and a name that is free', () => {
    const [sample] = summary.tenants;
    if (sample === undefined) throw new Error('no tenant');
    const blue = { ...sample, name: 'team-blue', hasSamples: false };
    const text = render({ tenants: [blue, sample] });
    expect(text).toContain('--kubeconfig tenant-1.kubeconfig get all,pvc -n shop');
    expect(text).toContain('vc-manager create team-green --wait');

    const none = render({
      tenants: [
        { ...blue, phase: 'Failed' },
        { ...blue, namespace: 'x', name: 'b' },
      ],
    });
    expect(none).toContain('vc-manager kubeconfig b -n x > b.kubeconfig');
    expect(none).toContain('--kubeconfig b.kubeconfig get namespaces');
    expect(none).not.toContain('shop');
  });

  it('numbers the name of a tenant to create when the usual ones are taken', () => {
    const [sample] = summary.tenants;
    if (sample === undefined) throw new Error('no tenant');
    const names = ['team-blue', 'team-green', 'team-red', 'team-yellow', 'team-1'];
    const text = render({ tenants: names.map((name) => ({ ...sample, name })) });
    expect(text).toContain('vc-manager create team-2 --wait');
  });
});

describe('commandName', () => {
  it('is what the reader has typed', () => {
    expect(commandName({ npm_lifecycle_event: 'start' }, '/src/bin/vc-manager.js', '/src')).toBe(
      'npx vc-manager',
    );
    expect(commandName({}, '/usr/local/bin/vc-manager', '/')).toBe('vc-manager');
    expect(commandName({}, '/x/vc-manager.js', process.cwd())).toBe('node bin/vc-manager.js');
  });
});

describe('quoted', () => {
  it('leaves plain words alone and makes one word of the others', () => {
    expect(quoted('/tmp/a-b_c.d')).toBe('/tmp/a-b_c.d');
    expect(quoted("/tmp/it's here")).toBe(`'/tmp/it'\\''s here'`);
  });
});
