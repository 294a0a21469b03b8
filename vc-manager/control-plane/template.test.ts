import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { defaultVersions } from '../binaries/index.ts';
import { loadTemplates, parseTemplate, selectTemplate } from './template.ts';

const templates = await loadTemplates();
const defaultVersion = defaultVersions.kubernetes;

describe('the packaged templates', () => {
  it('are named after their minor version', () => {
    expect(templates.map(({ metadata, spec }) => [metadata.name, spec.kubernetesVersion])).toEqual([
      ['v1-34', '1.34.4'],
      ['v1-35', '1.35.4'],
      ['v1-36-own-etcd', '1.36.3'],
      ['v1-36', '1.36.3'],
    ]);
  });

  it('differ in nothing but version and feature gates', () => {
    const plain = templates.filter(({ spec }) => spec.datastore === undefined);
    const common = plain.map(({ spec }) =>
      spec.components.map(({ featureGates, ...component }) => ({
        ...component,
        gated: featureGates !== undefined,
      })),
    );
    for (const each of common) expect(each).toEqual(common[0]);
  });

  it.each([
    ['v1-34', false],
    ['v1-35', false],
    ['v1-36', true],
  ])('have the gate in %s that only 1.36 needs: %s', (name, isThere) => {
    const { spec } = templates.find(({ metadata }) => metadata.name === name) ?? {};
    const gates = spec?.components[0]?.featureGates;
    expect(gates).toMatchObject({ APIServerIdentity: false, DetectCacheInconsistency: false });
    expect(Object.hasOwn(gates ?? {}, 'UnknownVersionInteroperabilityProxy')).toBe(isThere);
  });

  it('bound each component in memory and CPU', () => {
    const bounds = templates.flatMap(({ metadata, spec }) =>
      spec.components.map(({ name, resources, env }) => ({
        component: `${metadata.name}/${name}`,
        bounded: Object.keys(resources?.limits ?? {}).sort(),
        collects: env?.['GOMEMLIMIT'] !== undefined,
      })),
    );
    expect(bounds).toHaveLength(9);
    for (const each of bounds) expect(each).toMatchObject({ bounded: ['cpu', 'memory'], collects: true });
  });

  it('change a base in what they name, and in nothing else', () => {
    const spec = (name: string) => templates.find(({ metadata }) => metadata.name === name)?.spec;
    const [base, own] = [spec('v1-36'), spec('v1-36-own-etcd')];
    expect(own?.components.map(({ name }) => name)).toEqual([
      'etcd',
      'kube-apiserver',
      'kube-controller-manager',
    ]);
    const [, server, controllers] = own?.components ?? [];
    expect(controllers).toEqual(base?.components[1]);
    expect(server).toEqual({
      ...base?.components[0],
      args: { ...base?.components[0]?.args, 'etcd-prefix': '/registry' },
      dependsOn: ['etcd'],
    });
    expect(own?.addons).toEqual(base?.addons);
  });

  it('include the one for the default version', () => {
    expect(selectTemplate(templates, { defaultVersion }).template.metadata.name).toBe('v1-36');
  });
});

describe('selectTemplate', () => {
  it.each([
    [{ version: '1.35' }, 'v1-35', '1.35.4'],
    [{ version: '1.35.1' }, 'v1-35', '1.35.1'],
    [{ template: 'v1-34' }, 'v1-34', '1.34.4'],
    [{ template: 'v1-34', version: '1.34.2' }, 'v1-34', '1.34.2'],
    [{}, 'v1-36', '1.36.3'],
  ])('answers %j with %s at %s', (wanted, name, version) => {
    const choice = selectTemplate(templates, { ...wanted, defaultVersion });
    expect([choice.template.metadata.name, choice.version]).toEqual([name, version]);
  });

  it('prefers the plain template of a minor to its variants', () => {
    const plain = templates.find((template) => template.metadata.name === 'v1-36');
    if (plain === undefined) throw new Error('no template');
    const variant = { ...plain, metadata: { name: 'dense-1-36' } };
    const choice = selectTemplate([variant, ...templates], { version: '1.36', defaultVersion });
    expect(choice.template.metadata.name).toBe('v1-36');
  });

  it('refuses versions without a template, and names those that have one', () => {
    expect(() => selectTemplate(templates, { version: '1.20', defaultVersion })).toThrow(
      expect.objectContaining({
        code: 'UnsupportedVersion',
        message: expect.stringContaining('1.34.4, 1.35.4, 1.36.3'),
      }),
    );
  });

  it('refuses a version of another minor than the named template, and says that it is this one', () => {
    expect(() => selectTemplate(templates, { template: 'v1-34', version: '1.36', defaultVersion })).toThrow(
      expect.objectContaining({
        code: 'UnsupportedVersion',
        message: expect.stringMatching(/v1-34, which spec\.template names, is for Kubernetes 1\.34\.4/),
      }),
    );
  });

  it('refuses a name that no template has', () => {
    expect(() => selectTemplate(templates, { template: 'dense', defaultVersion })).toThrow(
      expect.objectContaining({ code: 'UnknownTemplate', message: expect.stringContaining('v1-36') }),
    );
  });
});

describe('parseTemplate', () => {
  it('names every problem and where it is', () => {
    const broken = {
      apiVersion: 'skerry.dev/v1alpha1',
      kind: 'ControlPlaneTemplate',
      metadata: { name: 'x' },
      spec: {},
    };
    expect(() => parseTemplate(broken, 'x.yaml')).toThrow(
      /x\.yaml.*spec\.kubernetesVersion.*spec\.components/,
    );
  });

  it('refuses fields it does not know, so that a typing error is seen', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'skerry-templates-'));
    try {
      await writeFile(
        join(directory, 'a.yaml'),
        JSON.stringify({ ...templates[0], spec: { ...templates[0]?.spec, extra: 1 } }),
      );
      await expect(loadTemplates(directory)).rejects.toMatchObject({ code: 'InvalidTemplate' });
    } finally {
      await rm(directory, { recursive: true });
    }
  });
});

describe('a base that is not there', () => {
  it('is named', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'skerry-templates-'));
    try {
      await writeFile(join(directory, 'a.yaml'), JSON.stringify({ metadata: { name: 'a' }, base: 'b.yaml' }));
      await expect(loadTemplates(directory)).rejects.toMatchObject({
        code: 'InvalidTemplate',
        message: expect.stringMatching(/a\.yaml.*base: .*b\.yaml/),
      });
    } finally {
      await rm(directory, { recursive: true });
    }
  });
});
