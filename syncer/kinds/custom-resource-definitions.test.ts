import { describe, expect, it } from 'vitest';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import type { KubeObject } from '../../kube/index.ts';
import type { Action } from './contract.ts';
import {
  type DefinedVersion,
  type Definition,
  isEstablished,
  customResourceDefinitionKind as kind,
  servedResource,
  versionsOf,
} from './custom-resource-definitions.ts';
import { carryOut, testContext } from './testing.ts';

const schema = (type: string) => ({
  openAPIV3Schema: { type: 'object', properties: { spec: { type } } },
});
const v1: DefinedVersion = { name: 'v1', served: true, storage: true, schema: schema('object') };
const v1beta1: DefinedVersion = { name: 'v1beta1', served: true, storage: false, schema: schema('string') };
const webhook = { strategy: 'Webhook', webhook: { clientConfig: { service: {}, caBundle: 'x' } } };

function definition(
  spec: Definition['spec'] = {},
  metadata: Partial<KubeObject['metadata']> = {},
): Definition {
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: {
      name: 'widgets.example.com',
      uid: 'uid-super',
      labels: { [labelKeys.public]: 'true' },
      ...metadata,
    },
    spec: {
      group: 'example.com',
      scope: 'Namespaced',
      names: { plural: 'widgets', singular: 'widget', kind: 'Widget', listKind: 'WidgetList' },
      versions: [v1],
      conversion: { strategy: 'None' },
      ...spec,
    },
    status: { storedVersions: ['v1'], conditions: [{ type: 'Established', status: 'True' }] },
  };
}

/** As caches show them. */
const inSuper = (object: Definition): Definition =>
  kind.compact?.super?.(structuredClone(object)) as Definition;
const inTenant = (object: KubeObject, status: Definition['status'] = {}): Definition =>
  kind.compact?.tenant?.(structuredClone({ ...object, status })) as Definition;
const copyOf = (original: Definition, status?: Definition['status']): Definition =>
  inTenant(kind.toTenant(inSuper(original), testContext()), status);
const up = (copy: Definition, original: Definition) => kind.up(copy, inSuper(original), testContext());
/** The versions that a patch would bring, without their content. */
const versionsIn = (actions: readonly Action[]): unknown => {
  const [first] = actions;
  const spec = first?.do === 'patchTenant' ? (first.patch['spec'] as Definition['spec']) : undefined;
  return spec?.versions?.map(({ name, served, storage }) => [name, served, storage]);
};

it.each([5, 'x', {}, [null], [5]])('a definition whose server sends %j for a list has nothing', (sent) => {
  const definition = {
    metadata: { name: 'x' },
    spec: { versions: sent },
    status: { conditions: sent },
  } as unknown as Definition;
  expect(isEstablished(definition)).toBe(false);
  expect(versionsOf(definition)).toEqual([]);
});

describe('the copy of a published definition', () => {
  it('has all but the status, which is that of the tenant’s API server', () => {
    const original = definition({}, { annotations: { 'cert-manager.io/inject-ca-from': 'x/y', note: 'n' } });
    expect(kind.toTenant(inSuper(original), testContext())).toEqual({
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'CustomResourceDefinition',
      metadata: {
        name: 'widgets.example.com',
        annotations: { note: 'n', [annotationKeys.uid]: 'uid-super', 'skerry.dev/storage-version': 'v1' },
      },
      spec: {
        group: 'example.com',
        scope: 'Namespaced',
        names: { plural: 'widgets', singular: 'widget', kind: 'Widget', listKind: 'WidgetList' },
        versions: [v1],
        conversion: { strategy: 'None' },
      },
    });
    expect(up(copyOf(original, { storedVersions: ['v1'], anything: 'else' }), original)).toEqual([]);
  });

  it('follows a changed schema, and an edit of the tenant is put back', () => {
    const original = definition();
    const changed = definition({ versions: [{ ...v1, schema: schema('string') }] });
    expect(up(copyOf(original), changed)).toEqual([
      { do: 'patchTenant', patch: { spec: { versions: [{ ...v1, schema: schema('string') }] } } },
    ]);
    const edited = kind.toTenant(inSuper(original), testContext()) as Definition;
    edited.metadata.labels = { mine: 'x' };
    edited.spec = {
      ...edited.spec,
      names: { ...edited.spec?.names, shortNames: ['w'] },
      conversion: webhook,
      versions: [{ ...v1, served: false }],
    };
    const actions = up(inTenant(edited), original);
    const { tenantObject } = carryOut({ tenantObject: edited, superObject: original }, actions);
    expect(up(inTenant(tenantObject as KubeObject), original)).toEqual([]);
    expect((tenantObject as Definition).spec?.conversion).toEqual({ strategy: 'None' });
  });

  it('does not care in which order a server writes the fields of a schema', () => {
    const turned = { openAPIV3Schema: { properties: { spec: { type: 'object' } }, type: 'object' } };
    expect(up(copyOf(definition({ versions: [{ ...v1, schema: turned }] })), definition())).toEqual([]);
  });

  it('is not patched while it is on its way out, and is made anew when its API is another', () => {
    const leaving = copyOf(definition());
    leaving.metadata.deletionTimestamp = '2026-01-01T00:00:00Z';
    expect(up(leaving, definition({ versions: [v1beta1] }))).toEqual([]);
    expect(up(copyOf(definition()), definition({ scope: 'Cluster' }))).toEqual([{ do: 'deleteTenant' }]);
  });

  it('keeps a version that the tenant’s API server has stored objects in, unserved, when the original drops it', () => {
    const both = definition({ versions: [v1, v1beta1] });
    const copy = copyOf(both, { storedVersions: ['v1beta1', 'v1'] });
    const actions = up(copy, definition());
    expect(versionsIn(actions)).toEqual([
      ['v1', true, true],
      ['v1beta1', false, false],
    ]);
    const { tenantObject } = carryOut(
      { tenantObject: kind.toTenant(inSuper(both), testContext()), superObject: undefined },
      actions,
    );
    const patched = inTenant(tenantObject as KubeObject, { storedVersions: ['v1beta1', 'v1'] });
    expect(up(patched, definition())).toEqual([]);
  });

  it('stays as it is, with a notice, when the original has lost the version that its objects are stored in', () => {
    const copy = copyOf(definition({ versions: [{ ...v1beta1, storage: true }] }));
    expect(up(copy, definition())).toEqual([
      { do: 'notice', notice: expect.objectContaining({ reason: 'VersionGone', type: 'Warning' }) },
    ]);
  });
});

describe('a definition that the super cluster converts by a webhook', () => {
  const original = definition({ versions: [v1beta1, v1], conversion: webhook });

  it('comes up in its storage version alone, with no webhook and no caBundle, and the copy says so', () => {
    const copy = kind.toTenant(inSuper(original), testContext()) as Definition;
    expect(copy.spec?.versions).toEqual([v1]);
    expect(copy.spec?.conversion).toEqual({ strategy: 'None' });
    expect(up(inTenant(copy), original)).toEqual([
      {
        do: 'notice',
        notice: expect.objectContaining({
          reason: 'VersionsNotOffered',
          message: expect.stringContaining('v1beta1'),
        }),
      },
    ]);
  });

  it('stays with the version that the tenant has objects in when the storage version moves on', () => {
    const older = definition({
      versions: [
        { ...v1beta1, storage: true },
        { ...v1, storage: false },
      ],
      conversion: webhook,
    });
    const copy = copyOf(older);
    const [only, ...rest] = up(copy, original);
    expect(rest).toEqual([]);
    expect(only).toMatchObject({ do: 'notice', notice: { message: expect.stringContaining('v1beta1') } });
  });

  it('comes up in the most mature version that is served when that is not the storage version', () => {
    const unserved = { ...v1, served: false };
    const v1alpha1 = { ...v1beta1, name: 'v1alpha1' };
    const odd = definition({ versions: [v1alpha1, v1beta1, unserved], conversion: webhook });
    const copy = kind.toTenant(inSuper(odd), testContext()) as Definition;
    expect(copy.spec?.versions?.map(({ name, storage }) => [name, storage])).toEqual([['v1beta1', true]]);
  });
});

describe('what has no place in a tenant', () => {
  it('is a definition that is not published, serves nothing, or is Skerry’s own', () => {
    const ref = (original: Definition) => kind.tenantRef(inSuper(original), testContext());
    expect(ref(definition())).toEqual({ name: 'widgets.example.com' });
    expect(ref(definition({}, { labels: {} }))).toBeUndefined();
    expect(ref(definition({ versions: [{ ...v1, served: false }] }))).toBeUndefined();
    expect(ref(definition({ group: 'skerry.dev' }))).toBeUndefined();
  });

  it('is kept in caches without its schemas, and so is what the tenant made itself', () => {
    const big = definition(
      {},
      { labels: {}, annotations: { 'kubectl.kubernetes.io/last-applied-configuration': 'x' } },
    );
    expect(JSON.stringify(inSuper(big))).not.toContain('openAPIV3Schema');
    expect(JSON.stringify(inSuper(big))).not.toContain('last-applied');
    expect(inSuper(big).spec?.versions).toEqual([{ name: 'v1', served: true, storage: true }]);
    expect(inTenant(big).spec).toBeUndefined();
    expect(JSON.stringify(copyOf(definition()))).not.toContain('openAPIV3Schema');
  });
});

describe('when the original is gone', () => {
  it('the copy goes, and with it would go the objects of its API', () => {
    const copy = copyOf(definition());
    expect(kind.superGone?.(copy, testContext())).toEqual([{ do: 'deleteTenant' }]);
    expect(servedResource(copy)).toEqual({
      group: 'example.com',
      version: 'v1',
      plural: 'widgets',
      kind: 'Widget',
      namespaced: true,
    });
  });

  it('and has been made anew, that one takes over the copy instead', () => {
    const anew = definition({}, { uid: 'uid-anew' });
    const context = testContext({ superObjects: [inSuper(anew)] });
    expect(kind.superGone?.(copyOf(definition()), context)).toEqual([
      { do: 'patchTenant', patch: { metadata: { annotations: { [annotationKeys.uid]: 'uid-anew' } } } },
    ]);
    const hidden = testContext({ superObjects: [inSuper(definition({}, { uid: 'uid-anew', labels: {} }))] });
    expect(kind.superGone?.(copyOf(definition()), hidden)).toEqual([{ do: 'deleteTenant' }]);
  });
});
