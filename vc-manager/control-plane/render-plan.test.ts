import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import type { ControlPlaneTemplate, ControlPlaneTemplateSpec } from '../../api/control-plane-template.ts';
import { connectionFromSecret } from '../../kube/index.ts';
import { componentHash } from '../drivers/driver.ts';
import type { ComponentPlan } from './plan.ts';
import { renderPlan } from './render-plan.ts';
import { loadTemplates } from './template.ts';
import { exampleOptions } from './testing/example.ts';

const templates = await loadTemplates();

function named(name: string): ControlPlaneTemplate {
  const found = templates.find((template) => template.metadata.name === name);
  if (found === undefined) throw new Error(`no template ${name}`);
  return found;
}

function component(components: readonly ComponentPlan[], name: string): ComponentPlan {
  const found = components.find((candidate) => candidate.name === name);
  if (found === undefined) throw new Error(`no component ${name}`);
  return found;
}

function reversed<T>(map: Record<string, T>): Record<string, T> {
  return Object.fromEntries(Object.entries(map).reverse());
}

describe('renderPlan', () => {
  it.each(['v1-36', 'v1-36-own-etcd'])('renders %s as reviewed', async (name) => {
    const plan = renderPlan(exampleOptions(named(name).spec));
    const golden = join(import.meta.dirname, 'testing', 'golden', `${name}.yaml`);
    await expect(stringify(plan, { lineWidth: 0 })).toMatchFileSnapshot(golden);
  });

  it('gives the same plan whatever the order of the maps in the template', () => {
    const { spec } = named('v1-36');
    const shuffled: ControlPlaneTemplateSpec = {
      ...spec,
      components: spec.components.map((each) => ({
        ...each,
        args: reversed(each.args),
        ...(each.featureGates === undefined ? {} : { featureGates: reversed(each.featureGates) }),
      })),
    };
    expect(renderPlan(exampleOptions(shuffled))).toEqual(renderPlan(exampleOptions(spec)));
  });

  it('changes nothing but the API server, which reads it as it starts, for another Pod Security level', () => {
    const { spec } = named('v1-36');
    const hashes = (['baseline', 'restricted'] as const).map((podSecurity) =>
      renderPlan({ ...exampleOptions(spec), podSecurity }).components.map(componentHash),
    );
    const names = renderPlan(exampleOptions(spec)).components.map(({ name }) => name);
    expect(names.filter((_, index) => hashes[0]?.[index] !== hashes[1]?.[index])).toEqual(['kube-apiserver']);
  });

  it('gives each component only the credentials it refers to', () => {
    const { components } = renderPlan(exampleOptions(named('v1-36').spec));
    expect(component(components, 'kube-controller-manager').files.map((file) => file.path)).toEqual([
      'client-ca.key',
      'client-signing-ca.crt',
      'controller-manager.kubeconfig',
      'service-account.key',
      'serving-ca.crt',
    ]);
    const keys = component(components, 'kube-apiserver').files.filter((file) => file.path.endsWith('ca.key'));
    expect(keys).toEqual([]);
    expect(components.flatMap((each) => each.files).every((file) => file.mode === 0o600)).toBe(true);
  });

  it('sends the controller manager to the server on its own machine', () => {
    const options = exampleOptions(named('v1-36').spec);
    const server = (bindAddress: string) => {
      const { components } = renderPlan({ ...options, bindAddress });
      const { files } = component(components, 'kube-controller-manager');
      const file = files.find(({ path }) => path === 'controller-manager.kubeconfig');
      return connectionFromSecret(file?.content ?? '').server;
    };
    expect(server('0.0.0.0')).toBe('https://127.0.0.1:21000');
    expect(server('192.0.2.10')).toBe('https://192.0.2.10:21000');
    expect(server('::')).toBe('https://[::1]:21000');
  });

  it('puts an address of IPv6 into brackets where it stands in a URL, and nowhere else', () => {
    const options = exampleOptions(named('v1-36-own-etcd').spec);
    const { components } = renderPlan({ ...options, bindAddress: '::' });
    const { args } = component(components, 'etcd');
    expect(args).toContain('--listen-client-urls=https://[::]:2379');
    expect(args).toContain('--listen-metrics-urls=http://[::]:2381');
    expect(component(components, 'kube-apiserver').args).toContain('--bind-address=::');
  });

  it('lets extra arguments replace and remove those of the template', () => {
    const extraArgs = {
      'kube-apiserver': { profiling: 'true', 'allow-privileged': null, 'event-ttl': '5m' },
    };
    const { components } = renderPlan({ ...exampleOptions(named('v1-36').spec), extraArgs });
    const { args } = component(components, 'kube-apiserver');
    expect(args).toContain('--profiling=true');
    expect(args).toContain('--event-ttl=5m');
    expect(args.filter((arg) => arg.startsWith('--allow-privileged'))).toEqual([]);
  });

  it('uses the wanted patch version and names the binaries', () => {
    const { components } = renderPlan({ ...exampleOptions(named('v1-36').spec), version: '1.36.1' });
    expect(components.map((each) => each.binary)).toEqual([
      { name: 'kube-apiserver', version: '1.36.1' },
      { name: 'kube-controller-manager', version: '1.36.1' },
    ]);
  });

  it.each([
    ['${nothing}', 'nothing'],
    ['${file:nobody.key}', 'file:nobody.key'],
    ['${port:nothing}', 'port:nothing'],
  ])('refuses a template that uses %s', (value, placeholder) => {
    const { spec } = named('v1-36');
    const [first] = spec.components;
    if (first === undefined) throw new Error('no component');
    const broken = { ...spec, components: [{ ...first, args: { flag: value } }] };
    expect(() => renderPlan(exampleOptions(broken))).toThrow(
      expect.objectContaining({ code: 'UnknownPlaceholder', message: expect.stringContaining(placeholder) }),
    );
  });
});
