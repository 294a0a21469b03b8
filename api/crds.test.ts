import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { crdManifests, structuralSchema } from './crds.ts';

interface Version {
  schema: { openAPIV3Schema: { properties: Record<string, Schema> } };
  subresources?: object;
}
interface Schema {
  properties?: Record<string, Schema>;
  items?: Schema;
  additionalProperties?: Schema;
  [keyword: string]: unknown;
}

function versionOf(name: string): Version {
  const crd = crdManifests().find(({ metadata }) => metadata.name === name) ?? { metadata: {} };
  return (crd['spec'] as { versions: Version[] }).versions[0] as Version;
}

/** Every schema below, with its path. */
function* nested(schema: Schema, path = ''): Generator<[string, Schema]> {
  yield [path, schema];
  for (const [name, property] of Object.entries(schema.properties ?? {}))
    yield* nested(property, `${path}.${name}`);
  if (schema.items !== undefined) yield* nested(schema.items, `${path}[]`);
  if (schema.additionalProperties !== undefined) yield* nested(schema.additionalProperties, `${path}{}`);
}

describe('crdManifests', () => {
  const root = (name: string): Schema => versionOf(name).schema.openAPIV3Schema;

  it.each(crdManifests().map(({ metadata }) => metadata.name ?? ''))(
    '%s has a type everywhere, as apiextensions asks',
    (name) => {
      for (const [path, schema] of nested(root(name))) expect(schema['type'], path).toBeTypeOf('string');
    },
  );

  it.each(['virtualclusters.skerry.dev', 'virtualclusterpolicies.skerry.dev'])(
    'bounds every string, list and map of the spec of %s, so that rules have a known cost',
    (name) => {
      const { spec } = root(name).properties ?? {};
      for (const [path, schema] of nested(spec as Schema)) {
        if (schema['type'] === 'string') expect(schema['maxLength'] ?? schema['enum'], path).toBeDefined();
        if (schema['type'] === 'array') expect(schema['maxItems'], path).toBeDefined();
        if (schema.additionalProperties !== undefined) expect(schema['maxProperties'], path).toBeDefined();
      }
    },
  );

  it('lets the API server say what to write instead of what it refuses', () => {
    const { spec } = root('virtualclusters.skerry.dev').properties as { spec: Schema };
    const hosts = spec.properties?.['policy']?.properties?.['ingressHosts']?.items;
    expect(hosts?.['x-kubernetes-validations']).toEqual([
      {
        rule: expect.stringMatching(/^self\.matches\(r'.*'\)$/),
        message: expect.stringContaining('*.example.com for every name below'),
      },
    ]);
  });

  it('has what the API server fills in and checks', () => {
    const { spec, status } = root('virtualclusters.skerry.dev').properties as {
      spec: Schema;
      status: Schema;
    };
    expect(spec.properties?.['weight']).toMatchObject({
      type: 'integer',
      minimum: 1,
      maximum: 1000,
      default: 1,
    });
    expect(spec.properties?.['clusterDomain']).toMatchObject({
      default: 'cluster.local',
      'x-kubernetes-validations': [{ rule: 'self == oldSelf' }],
    });
    expect(status.properties?.['conditions']).toMatchObject({
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['type'],
    });
  });

  it('keeps status apart, for VirtualClusters only', () => {
    expect(versionOf('virtualclusters.skerry.dev').subresources).toEqual({ status: {} });
    expect(versionOf('controlplanetemplates.skerry.dev').subresources).toBeUndefined();
    expect(versionOf('virtualclusterpolicies.skerry.dev').subresources).toBeUndefined();
  });
});

describe('structuralSchema', () => {
  it('keeps maps open and drops what pruning does anyway', () => {
    const schema = structuralSchema(z.strictObject({ map: z.record(z.string(), z.string()) }));
    expect(schema).toEqual({
      type: 'object',
      properties: { map: { type: 'object', additionalProperties: { type: 'string' } } },
      required: ['map'],
    });
  });

  it('drops bounds that only say how far JavaScript can count', () => {
    expect(structuralSchema(z.int())).toEqual({ type: 'integer', format: 'int64' });
  });

  it('refuses what a structural schema cannot say', () => {
    expect(() => structuralSchema(z.union([z.string(), z.number()]))).toThrow(/anyOf/);
  });
});
