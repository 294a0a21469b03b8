import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import { applyMergePatch, type KubeObject } from '../../kube/index.ts';
import { superNamespaceName } from '../mapping/names.ts';
import { customResourceKind, parseShape, payloadPatch, shapeText } from './custom-resources.ts';
import { carryOut, testContext, testTenant } from './testing.ts';

const resource = { group: 'example.com', version: 'v1', plural: 'widgets', kind: 'Widget', namespaced: true };
const kind = customResourceKind({ resource, hasStatus: true });
const shop = superNamespaceName(testTenant(), 'shop');

const definition = (labels: Record<string, string>): KubeObject => ({
  kind: 'CustomResourceDefinition',
  metadata: { name: 'widgets.example.com', labels },
});

const context = (options: { optedIn?: boolean; published?: boolean } = {}) =>
  testContext({
    tenant: { customResources: options.optedIn === false ? [] : ['widgets.example.com'] },
    superObjects: [
      definition(options.published === false ? {} : { [labelKeys.public]: 'true' }),
      {
        kind: 'Namespace',
        metadata: {
          name: shop,
          labels: { [labelKeys.tenant]: testTenant().uid, [labelKeys.namespace]: 'shop' },
          annotations: { [annotationKeys.uid]: 'u' },
        },
      },
    ],
  });

function widget(change: Partial<KubeObject> = {}): KubeObject {
  return {
    apiVersion: 'example.com/v1',
    kind: 'Widget',
    metadata: {
      name: 'one',
      namespace: 'shop',
      uid: 'uid-t',
      generation: 3,
      labels: { app: 'x' },
      annotations: { 'external-dns.alpha.kubernetes.io/hostname': 'evil.example' },
      ownerReferences: [{ apiVersion: 'v1', kind: 'Owner', name: 'o', uid: 'u' }],
      finalizers: ['mine/finalizer'],
    },
    spec: { size: 3, configRef: { namespace: 'shop', name: 'c' } },
    ...change,
  };
}

const superWidget = (change: Partial<KubeObject> = {}): KubeObject => {
  const object = kind.toSuper(widget(), context());
  return { ...object, ...change, metadata: { ...object.metadata, generation: 7, ...change.metadata } };
};

describe('the super object of a custom resource (sync rule `custom-resources`)', () => {
  it('has the spec with marks, in the mapped namespace, without status, owners and denied annotations', () => {
    const s = kind.toSuper(widget({ status: { phase: 'Mine' } }), context());
    expect(s).toMatchObject({
      apiVersion: 'example.com/v1',
      kind: 'Widget',
      metadata: {
        name: 'one',
        namespace: shop,
        labels: { app: 'x', [labelKeys.tenant]: testTenant().uid, [labelKeys.namespace]: 'shop' },
        annotations: { [annotationKeys.uid]: 'uid-t' },
      },
      // What it refers to is not looked into.
      spec: { size: 3, configRef: { namespace: 'shop', name: 'c' } },
    });
    expect(s['status']).toBeUndefined();
    expect(s.metadata.finalizers).toBeUndefined();
    expect(s.metadata.ownerReferences).toBeUndefined();
    expect(JSON.stringify(s)).not.toContain('evil.example');
  });

  it('is written once, follows the tenant object, and keeps what the super cluster has added', () => {
    expect(kind.down(widget(), superWidget(), context())).toEqual([]);
    const added = superWidget({ spec: { size: 3, configRef: { namespace: 'shop', name: 'c' }, zone: 'a' } });
    expect(kind.down(widget(), added, context())).toEqual([]);
    const grown = widget({ spec: { size: 4 } });
    const actions = kind.down(grown, added, context());
    const { superObject } = carryOut({ tenantObject: grown, superObject: added }, actions);
    expect(superObject?.['spec']).toEqual({ size: 4, zone: 'a' });
    expect(kind.down(grown, superObject as KubeObject, context())).toEqual([]);
  });

  it('is wanted only while the definition is published and the tenant has opted in; else it counts as missing', () => {
    expect(kind.admit?.(widget(), context())).toEqual({ wanted: true });
    expect(kind.admit?.(widget(), context({ optedIn: false }))).toEqual({ wanted: false });
    expect(kind.admit?.(widget(), context({ published: false }))).toEqual({ wanted: false });
    expect(kind.unwantedIsMissing).toBe(true);
  });
});

describe('the status of the tenant object', () => {
  const up = (t: KubeObject, s: KubeObject) => kind.up?.(t, s, context());
  const shown = (t: KubeObject, s: KubeObject): unknown =>
    carryOut({ tenantObject: t, superObject: s }, up(t, s) ?? []).tenantObject?.['status'];

  it('is what the super cluster says, in the tenant’s words', () => {
    const s = superWidget({
      status: { phase: 'Ready', url: `http://one.${shop}.svc`, refs: [{ ns: shop }] },
    });
    expect(up(widget(), s)).toEqual([
      {
        do: 'patchTenant',
        subresource: 'status',
        patch: { status: { phase: 'Ready', url: 'http://one.shop.svc', refs: [{ ns: 'shop' }] } },
      },
    ]);
    const t = widget({ status: { phase: 'Mine', note: 'tampered' } });
    expect(shown(t, superWidget({ status: { phase: 'Ready' } }))).toEqual({ phase: 'Ready' });
    expect(shown(t, superWidget())).toBeUndefined();
    expect(up(widget({ status: { phase: 'Ready' } }), superWidget({ status: { phase: 'Ready' } }))).toEqual(
      [],
    );
  });

  it('counts the generations of the tenant object: its last one is observed once the super object has been seen with all that the tenant object asks for', () => {
    const status = (observedGeneration: number) => ({
      observedGeneration,
      conditions: [{ type: 'Ready', status: 'True', observedGeneration }],
    });
    const seen = superWidget({ status: status(7) });
    expect(shown(widget(), seen)).toEqual(status(3));
    expect(shown(widget(), superWidget({ status: status(6) }))).toEqual(status(2));
    const changed = widget({
      spec: { size: 4 },
      status: status(3),
      metadata: { ...widget().metadata, generation: 4 },
    });
    expect(shown(changed, seen)).toEqual(status(3));
  });

  it('is written with the object where it is no subresource, generations and all', () => {
    const plain = customResourceKind({ resource, hasStatus: false });
    const s = superWidget({ status: { observedGeneration: 7 } });
    expect(plain.up?.(widget(), s, context())).toEqual([
      { do: 'patchTenant', patch: { status: { observedGeneration: 7 } } },
    ]);
  });
});

type Fields = Record<string, unknown>;

const shapeOf = (payload: Fields) => parseShape(shapeText(payload));

/**
 * What the super object has after the tenant object was `before` and is `now`, when the super cluster has made
 * `there` of the first.
 */
function carried(before: Fields, now: Fields, there: Fields = before): Fields {
  const patch = payloadPatch(there, now, shapeOf(now), shapeOf(before));
  return patch === undefined ? there : (applyMergePatch(there, patch) as Fields);
}

describe('fields of the tenant object', () => {
  it('are carried down when they change, appear and go', () => {
    expect(carried({ spec: { a: 1, b: 2 } }, { spec: { a: 3, c: 4 } })).toEqual({ spec: { a: 3, c: 4 } });
    expect(carried({ spec: { a: 1 }, data: { x: 'y' } }, { spec: { a: 1 } })).toEqual({ spec: { a: 1 } });
    expect(carried({ spec: { a: { b: 1 } } }, { spec: {} })).toEqual({ spec: {} });
  });

  it('go, even if they are called like what every object of the language has', () => {
    expect(carried({ spec: { constructor: 'x', toString: 'y' } }, { spec: {} })).toEqual({ spec: {} });
  });

  it('are put back when they are changed in the super cluster', () => {
    const t = { spec: { a: 1, list: [1, 2] } };
    expect(carried(t, t, { spec: { a: 9, list: [2, 1] } })).toEqual(t);
  });

  it('are lists as a whole', () => {
    expect(carried({ list: [{ a: 1, b: 2 }] }, { list: [{ a: 1 }] })).toEqual({ list: [{ a: 1 }] });
  });
});

describe('fields that the super cluster has put beside them', () => {
  it('stay, wherever they are and whatever the tenant object does', () => {
    const there = { spec: { a: 1, added: true, deep: { b: 2, added: true } }, extra: {} };
    expect(carried({ spec: { a: 1, deep: { b: 2 } } }, { spec: { a: 2, deep: { b: 2 } } }, there)).toEqual({
      spec: { a: 2, added: true, deep: { b: 2, added: true } },
      extra: {},
    });
    expect(carried({ spec: { a: 1, deep: { b: 2 } } }, { spec: { a: 1 } }, there)).toEqual({
      spec: { a: 1, added: true, deep: { added: true } },
      extra: {},
    });
  });

  it('stay when the super object no longer remembers what came from the tenant object', () => {
    expect(payloadPatch({ a: 1, b: 2 }, { a: 1 }, shapeOf({ a: 1 }), parseShape('garbage'))).toBeUndefined();
  });
});

it('large objects are remembered by their outer fields, and inside of these carried over whole', () => {
  const large = (value: string): Fields => ({
    spec: { map: Object.fromEntries(Array.from({ length: 3_000 }, (_, index) => [`key-${index}`, value])) },
    small: { a: 1 },
  });
  expect(shapeText(large('x')).length).toBeLessThan(16_384);
  expect(carried(large('x'), { ...large('y'), small: {} })).toEqual({ ...large('y'), small: {} });
  const fewer = { spec: { map: { 'key-1': 'x' } }, small: { a: 1 } };
  expect(carried(large('x'), fewer)).toEqual(fewer);
});

const payloads = fc
  .letrec<{ fields: Fields; value: unknown }>((tie) => ({
    fields: fc.dictionary(fc.constantFrom('a', 'b', 'c'), tie('value'), {
      maxKeys: 3,
      noNullPrototype: true,
    }),
    value: fc.oneof(
      { depthSize: 'small' },
      fc.integer({ min: 0, max: 3 }),
      fc.array(fc.nat(2)),
      tie('fields'),
    ),
  }))
  .fields.map((fields) => fields);

it('the super object becomes the tenant object whatever both were, and then nothing more is written', () => {
  fc.assert(
    fc.property(payloads, payloads, (before, now) => {
      const there = carried(before, now);
      expect(there).toEqual(now);
      expect(payloadPatch(there, now, shapeOf(now), shapeOf(now))).toBeUndefined();
    }),
  );
});
