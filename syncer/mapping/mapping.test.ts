import { describe, expect, it } from 'vitest';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import { applyMergePatch, type KubeObject } from '../../kube/index.ts';
import { testContext, testNamespace, testTenant } from '../kinds/testing.ts';
import { bucketOf, isOurs, originalUid, tenantNamespaceOf } from './labels.ts';
import {
  copyMetadata,
  goesDown,
  isTransparent,
  superMetadata,
  superMetadataPatch,
  transparentMetadataPatch,
} from './metadata.ts';
import { superNamespaceName } from './names.ts';
import { scrub } from './scrub.ts';

const tenant = testTenant();

function object(metadata: KubeObject['metadata']): KubeObject {
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: 'settings', namespace: 'shop', uid: 'u1', ...metadata },
  };
}

describe('names (sync rule `namespace-names`)', () => {
  it('makes a readable namespace name that ends in 16 base-32 characters', () => {
    expect(superNamespaceName(tenant, 'shop')).toMatch(/^acme-blue-shop-[a-z2-7]{16}$/);
    expect(superNamespaceName(tenant, 'shop')).toBe(superNamespaceName(tenant, 'shop'));
  });

  it('keeps namespaces b-c in tenant a and c in tenant a-b apart', () => {
    const one = superNamespaceName({ id: 'one', namespace: 'm', name: 'a' }, 'b-c');
    const other = superNamespaceName({ id: 'other', namespace: 'm', name: 'a-b' }, 'c');
    expect(one.slice(0, -16)).toBe(other.slice(0, -16));
    expect(one).not.toBe(other);
  });

  it('tells tenants of one name apart by their id, which a re-created tenant does not share', () => {
    expect(superNamespaceName({ ...tenant, id: 'other' }, 'shop')).not.toBe(
      superNamespaceName(tenant, 'shop'),
    );
  });

  it('does not let the id run into the namespace', () => {
    expect(superNamespaceName({ ...tenant, id: 'ab' }, 'c')).not.toBe(
      superNamespaceName({ ...tenant, id: 'a' }, 'bc'),
    );
  });

  it('fits a 63-character namespace of a tenant with long names into 63 characters', () => {
    const name = superNamespaceName(
      { ...tenant, namespace: 'n'.repeat(63), name: 'v.w'.repeat(20) },
      'x'.repeat(63),
    );
    expect(name).toHaveLength(63);
    expect(name).toMatch(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/);
    expect(superNamespaceName({ ...tenant, namespace: 'n'.repeat(45), name: 'v.w' }, 'x')).toMatch(
      /^n{45}-[a-z2-7]{16}$/,
    );
  });

  it('gives each tenant one of 64 buckets', () => {
    const seen = new Set(Array.from({ length: 2000 }, (_, i) => bucketOf(`uid-${i}`)));
    expect([...seen].sort((a, b) => a - b)).toEqual(Array.from({ length: 64 }, (_, i) => i));
  });
});

describe('metadata on the way down (sync rules `ownership-labels`, `denied-metadata`)', () => {
  const context = testContext();

  it('keeps the name, maps the namespace and marks the super object with tenant, bucket, namespace, name and UID', () => {
    const metadata = superMetadata(object({ labels: { app: 'web' } }), context);
    expect(metadata).toMatchObject({
      name: 'settings',
      namespace: superNamespaceName(tenant, 'shop'),
      labels: {
        app: 'web',
        [labelKeys.tenant]: tenant.uid,
        [labelKeys.bucket]: String(bucketOf(tenant.uid)),
        [labelKeys.namespace]: 'shop',
      },
      annotations: { [annotationKeys.tenantName]: 'acme/blue', [annotationKeys.uid]: 'u1' },
    });
    const s = { metadata };
    expect([isOurs(s, tenant), originalUid(s), tenantNamespaceOf(s)]).toEqual([true, 'u1', 'shop']);
    expect(isOurs(s, { uid: 'another' })).toBe(false);
  });

  it('turns owners into an annotation and leaves finalizers behind', () => {
    const owner = { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'web', uid: 'u2', controller: true };
    const metadata = superMetadata(object({ ownerReferences: [owner], finalizers: ['a/b'] }), context);
    expect(metadata).not.toHaveProperty('ownerReferences');
    expect(metadata).not.toHaveProperty('finalizers');
    expect(JSON.parse(metadata.annotations?.[annotationKeys.ownerReferences] ?? '')).toEqual([owner]);
  });

  it('takes ordinary keys down unchanged, app.kubernetes.io included', () => {
    const labels = { 'app.kubernetes.io/name': 'web', tier: '' };
    const annotations = { 'app.kubernetes.io/part-of': 'shop', note: 'x' };
    expect(superMetadata(object({ labels, annotations }), context)).toMatchObject({ labels, annotations });
  });

  it.each([
    'kubectl.kubernetes.io/last-applied-configuration',
    'replicator.v1.mittwald.de/replicate-to',
    'reflector.v1.k8s.emberstack.com/reflection-auto-enabled',
    'trident.netapp.io/importOriginalName',
    'k8s.io/CloneRequest',
    'cdi.kubevirt.io/storage.import.endpoint',
  ])('takes no annotation down that something in the super cluster may act on: %s', (key) => {
    expect(superMetadata(object({ annotations: { [key]: '.*' } }), context).annotations).not.toHaveProperty([
      key,
    ]);
  });

  it.each([
    'openpolicyagent.org/policy',
    'config.openshift.io/inject-trusted-cabundle',
    'recurring-job.longhorn.io/source',
    'io.cattle.field/appId',
    'example.com/x',
  ])('takes no label down that something in the super cluster may act on: %s', (key) => {
    expect(superMetadata(object({ labels: { [key]: 'x' } }), context).labels).not.toHaveProperty([key]);
  });

  it.each([
    'pod-security.kubernetes.io/enforce',
    'scheduler.alpha.kubernetes.io/node-selector',
    'kubernetes.io/config.mirror',
    'k8s.v1.cni.cncf.io/networks',
    'v1.multus-cni.io/default-network',
    'cni.projectcalico.org/ipAddrs',
    'external-dns.alpha.kubernetes.io/hostname',
    'eks.amazonaws.com/role-arn',
    'pv.kubernetes.io/bind-completed',
    'volume.kubernetes.io/selected-node',
    'volume.beta.kubernetes.io/storage-class',
    'seccomp.security.alpha.kubernetes.io/pod',
    'container.apparmor.security.beta.kubernetes.io/main',
    'skerry.dev/tenant',
    'skerry.dev/anything',
  ])('never takes %s down', (key) => {
    const metadata = superMetadata(
      object({ labels: { [key]: 'forged' }, annotations: { [key]: 'forged' } }),
      context,
    );
    expect(Object.values(metadata.labels ?? {})).not.toContain('forged');
    expect(Object.values(metadata.annotations ?? {})).not.toContain('forged');
  });

  it('takes no key down that the operator denies or keeps for the super cluster', () => {
    const own = testContext({
      tenant: { deniedKeyPrefixes: ['denied/'], transparentKeyPrefixes: ['super/'] },
    });
    const metadata = superMetadata(object({ labels: { 'denied/a': '1', 'super/b': '1', c: '1' } }), own);
    expect(Object.keys(metadata.labels ?? {})).toEqual([
      'c',
      labelKeys.tenant,
      labelKeys.bucket,
      labelKeys.namespace,
    ]);
  });
});

it.each(['', '/'])(
  'takes a denied or transparent prefix with a star for a domain and all below it, ending in "%s"',
  (end) => {
    const tenant = testTenant({
      deniedKeyPrefixes: [`*.corp.example${end}`],
      transparentKeyPrefixes: [`*.shown.example${end}`],
    });
    const keys = (domain: string) => [`${domain}/a`, `x.${domain}/a`, `x${domain}/a`, domain, `a/${domain}`];
    const down = keys('corp.example').map((key) => goesDown(key, tenant));
    expect(down).toEqual([false, false, true, true, true]);
    const shown = keys('shown.example').map((key) => isTransparent(key, tenant));
    expect(shown).toEqual([true, true, false, false, false]);
  },
);

describe('bringing metadata up to date', () => {
  const context = testContext();
  const made = (t: KubeObject): KubeObject => ({ ...t, metadata: superMetadata(t, context) });
  const settled = (t: KubeObject, s: KubeObject): KubeObject =>
    applyMergePatch(s, superMetadataPatch(t, s, context) ?? {}) as KubeObject;

  it('finds nothing to do on what it has just made', () => {
    const t = object({ labels: { b: '1', a: '2' }, annotations: { note: 'x' } });
    expect(superMetadataPatch(t, made(t), context)).toBeUndefined();
  });

  it('adds, changes and removes what the tenant object added, changed and removed', () => {
    const s = made(object({ labels: { stays: '1', changes: '1', goes: '1' }, annotations: { goes: '1' } }));
    const t = object({ labels: { stays: '1', changes: '2', comes: '1' } });
    const after = settled(t, s);
    expect(after.metadata.labels).toMatchObject({ stays: '1', changes: '2', comes: '1' });
    expect(after.metadata.labels).not.toHaveProperty('goes');
    expect(after.metadata.annotations).not.toHaveProperty('goes');
    expect(superMetadataPatch(t, after, context)).toBeUndefined();
  });

  it('leaves keys alone that the webhooks of the super cluster put on the super object (sync rule `transparent-prefixes`)', () => {
    const t = object({ labels: { app: 'web' } });
    const s = settled(
      t,
      applyMergePatch(made(t), {
        metadata: { labels: { mesh: 'on' }, annotations: { sidecar: '{}' } },
      }) as KubeObject,
    );
    expect(s.metadata.labels).toMatchObject({ mesh: 'on', app: 'web' });
    expect(superMetadataPatch(object({}), s, context)).toMatchObject({ metadata: { labels: { app: null } } });
    expect(settled(object({}), s).metadata.labels).toMatchObject({ mesh: 'on' });
    expect(settled(object({}), s).metadata.annotations).toMatchObject({ sidecar: '{}' });
  });

  it('drops keys that every JavaScript object seems to have', () => {
    const s = made(object({ labels: { constructor: 'x' }, annotations: { toString: 'y' } }));
    const { metadata } = settled(object({}), s);
    expect(Object.keys({ ...metadata.labels, ...metadata.annotations })).not.toContain('constructor');
    expect(Object.keys({ ...metadata.labels, ...metadata.annotations })).not.toContain('toString');
  });

  it('puts a mark back that somebody removed, and drops one that has lost its reason', () => {
    const t = object({ ownerReferences: [{ apiVersion: 'v1', kind: 'Pod', name: 'p', uid: 'u' }] });
    const bare = applyMergePatch(made(t), {
      metadata: { labels: { [labelKeys.tenant]: null } },
    }) as KubeObject;
    expect(superMetadataPatch(t, bare, context)).toEqual({
      metadata: { labels: { [labelKeys.tenant]: tenant.uid } },
    });
    expect(superMetadataPatch(object({}), made(t), context)).toEqual({
      metadata: { annotations: { [annotationKeys.ownerReferences]: null } },
    });
  });

  it('cannot be talked into removing its own marks by an edited list of synced keys', () => {
    const t = object({ labels: { a: '1' } });
    const list = JSON.stringify({ l: [labelKeys.tenant, 'foreign', 7], a: [annotationKeys.uid] });
    const s = applyMergePatch(made(t), {
      metadata: { annotations: { [annotationKeys.syncedKeys]: list } },
    }) as KubeObject;
    const after = settled(t, s);
    expect(isOurs(after, tenant)).toBe(true);
    expect(originalUid(after)).toBe('u1');
    expect(
      settled(
        t,
        applyMergePatch(s, {
          metadata: { annotations: { [annotationKeys.syncedKeys]: '}{' } },
        }) as KubeObject,
      ),
    ).toEqual(after);
  });
});

describe('transparent keys (sync rule `transparent-prefixes`)', () => {
  const context = testContext({ tenant: { transparentKeyPrefixes: ['super.example/'] } });

  it('copies them up, changes and removals included, and nothing else', () => {
    const s = object({
      labels: { 'super.example/a': '1', other: '1' },
      annotations: { 'super.example/b': '2' },
    });
    const t = object({ labels: { 'super.example/old': '1', mine: '1' } });
    const patch = transparentMetadataPatch(t, s, context);
    expect(patch).toEqual({
      metadata: {
        labels: { 'super.example/a': '1', 'super.example/old': null },
        annotations: { 'super.example/b': '2' },
      },
    });
    expect(transparentMetadataPatch(applyMergePatch(t, patch) as KubeObject, s, context)).toBeUndefined();
  });

  it('never brings marks up, whatever the operator calls transparent', () => {
    const all = testContext({ tenant: { transparentKeyPrefixes: [''] } });
    const s = { metadata: superMetadata(object({}), testContext()) };
    expect(transparentMetadataPatch(object({}), s, all)).toBeUndefined();
  });
});

describe('copies in a tenant', () => {
  it('carry the UID of the super object and none of its marks', () => {
    const s = object({
      uid: 's1',
      labels: { [labelKeys.public]: 'true', tier: 'fast' },
      annotations: {
        [annotationKeys.uid]: 'x',
        'kubectl.kubernetes.io/last-applied-configuration': '{}',
        note: 'n',
      },
    });
    expect(copyMetadata(s)).toEqual({
      name: 'settings',
      labels: { tier: 'fast' },
      annotations: { note: 'n', [annotationKeys.uid]: 's1' },
    });
  });
});

describe('scrubbed text', () => {
  const own = superNamespaceName(tenant, 'shop');

  it("names the tenant's namespace instead of the super namespace", () => {
    const context = testContext();
    expect(
      scrub(
        `pods "web" is forbidden in ${own}: system:serviceaccount:${own}:default, "${own}/web".`,
        context,
      ),
    ).toBe('pods "web" is forbidden in shop: system:serviceaccount:shop:default, "shop/web".');
  });

  it('knows a cut name by the mark on the super namespace', () => {
    const long = 'x'.repeat(63);
    const name = superNamespaceName(tenant, long);
    const superObjects = [
      testNamespace(name, { [labelKeys.tenant]: tenant.uid, [labelKeys.namespace]: long }),
    ];
    expect(scrub(`no ${name}`, testContext({ superObjects }))).toBe(`no ${long}`);
    expect(scrub(`no ${name}`, testContext())).toBe('no (hidden)');
  });

  it('hides namespaces of other tenants, the internal id, and where the CA is kept', () => {
    const other = superNamespaceName({ id: 'zzz', namespace: 'acme', name: 'red' }, 'shop');
    const superObjects = [
      testNamespace(other, { [labelKeys.tenant]: 'other-uid', [labelKeys.namespace]: 'shop' }),
    ];
    const context = testContext({ superObjects });
    expect(scrub(`${other} ${tenant.id} tenant-kube-root-ca.crt`, context)).toBe(
      '(hidden) (hidden) kube-root-ca.crt',
    );
  });

  it('names what was made after a pod that refers to it as the tenant does', () => {
    expect(scrub('secret "skerry-late-absent" not found', testContext())).toBe('secret "absent" not found');
  });

  it('leaves other names alone, those that only look alike included', () => {
    const text = 'pod web-5d4f8c7b9d-abcde, job import-abcdefghijklmnop, node n-1';
    expect(scrub(text, testContext())).toBe(text);
  });
});
