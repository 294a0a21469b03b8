import { describe, expect, it } from 'vitest';
import { defaultPolicy } from '../../api/default-policy.ts';
import type { KubeObject } from '../../kube/index.ts';
import type { TenantInfo } from '../context.ts';
import { superNamespaceName } from '../mapping/names.ts';
import { configMapKind, lateConfigMapKind } from './config-maps.ts';
import { podKind } from './pods/pods.ts';
import { allKinds } from './registry.ts';
import { secretKind } from './secrets.ts';
import { testContext, testTenant } from './testing.ts';

function configMap(name = 'settings', change: Partial<KubeObject> = {}): KubeObject {
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name, namespace: 'shop', uid: `uid-${name}`, labels: {} },
    data: { level: 'debug', colour: 'blue' },
    ...change,
  };
}

/** A pod that mounts a ConfigMap. */
function podUsing(name: string, phase = 'Running'): KubeObject {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'user', namespace: 'shop', uid: 'uid-pod' },
    spec: { containers: [{ name: 'main', image: 'x' }], volumes: [{ name: 'v', configMap: { name } }] },
    status: { phase },
  };
}

function context(tenantObjects: KubeObject[] = [], tenant: Partial<TenantInfo> = {}) {
  return testContext({ tenant, tenantObjects, kinds: allKinds });
}

describe('which ConfigMaps go down', () => {
  it('those that a synced pod uses, and no others', () => {
    expect(configMapKind.admit?.(configMap(), context([podUsing('settings')]))).toEqual({ wanted: true });
    expect(configMapKind.admit?.(configMap(), context([podUsing('others')]))).toEqual({ wanted: false });
    expect(configMapKind.admit?.(configMap(), context())).toEqual({ wanted: false });
  });

  it('not those that only a pod uses which does not go down', () => {
    const refused = podUsing('settings');
    refused['spec'] = { ...(refused['spec'] as object), hostNetwork: true };
    expect(configMapKind.admit?.(configMap(), context([refused]))).toEqual({ wanted: false });
    const other = { ...podUsing('settings'), metadata: { name: 'b', namespace: 'shop', uid: 'uid-b' } };
    expect(configMapKind.admit?.(configMap(), context([refused, other]))).toEqual({ wanted: true });
    const policy = { ...defaultPolicy, podSecurity: 'privileged' as const };
    expect(configMapKind.admit?.(configMap(), context([refused], { policy }))).toEqual({ wanted: true });
  });

  it('those of a pod that waits for a scheduling gate go down when it does', () => {
    const gated = podUsing('settings');
    gated['spec'] = { ...(gated['spec'] as object), schedulingGates: [{ name: 'example.com/wait' }] };
    expect(configMapKind.admit?.(configMap(), context([gated]))).toEqual({ wanted: false });
    expect(configMapKind.admit?.(configMap(), context([podUsing('settings')]))).toEqual({ wanted: true });
  });

  it('those of a pod that is there, whatever is thought of it by now, and until it is gone', () => {
    const refused = podUsing('settings');
    refused['spec'] = { ...(refused['spec'] as object), hostNetwork: true };
    refused.metadata.deletionTimestamp = '2026-01-01T00:00:00Z';
    const there = podKind.toSuper(refused, context());
    const present = testContext({ tenantObjects: [refused], superObjects: [there], kinds: allKinds });
    expect(configMapKind.admit?.(configMap(), present)).toEqual({ wanted: true });
    there.metadata.annotations = { ...there.metadata.annotations, 'skerry.dev/uid': 'of-an-earlier-pod' };
    expect(configMapKind.admit?.(configMap(), present)).toEqual({ wanted: false });
  });

  it('not those of a pod that has finished and is there no more', () => {
    expect(configMapKind.admit?.(configMap(), context([podUsing('settings', 'Succeeded')]))).toEqual({
      wanted: false,
    });
  });

  it('those marked skerry.dev/sync=true', () => {
    const marked = configMap();
    marked.metadata.labels = { 'skerry.dev/sync': 'true' };
    expect(configMapKind.admit?.(marked, context())).toEqual({ wanted: true });
    marked.metadata.labels = { 'skerry.dev/sync': 'false' };
    expect(configMapKind.admit?.(marked, context())).toEqual({ wanted: false });
  });

  it('all, by option', () => {
    expect(configMapKind.admit?.(configMap(), context([], { syncConfigMaps: 'all' }))).toEqual({
      wanted: true,
    });
  });
});

describe('names', () => {
  it('kube-root-ca.crt goes down as tenant-kube-root-ca.crt', () => {
    const rootCa = configMap('kube-root-ca.crt');
    expect(configMapKind.admit?.(rootCa, context([podUsing('kube-root-ca.crt')]))).toEqual({ wanted: true });
    expect(configMapKind.toSuper(rootCa, context()).metadata.name).toBe('tenant-kube-root-ca.crt');
  });

  it('tenant-kube-root-ca.crt and skerry-* are reserved', () => {
    for (const name of ['tenant-kube-root-ca.crt', 'skerry-token']) {
      expect(configMapKind.admit?.(configMap(name), context([], { syncConfigMaps: 'all' }))).toMatchObject({
        wanted: false,
        notice: { type: 'Warning', reason: 'ReservedName' },
      });
      // Nothing to complain of as long as nobody wants it; a pod that refers to it is told so itself.
      expect(configMapKind.admit?.(configMap(name), context([podUsing(name)]))).toEqual({ wanted: false });
    }
  });

  it('no two of them mean one super object, and each leads back', () => {
    const names = [
      'kube-root-ca.crt',
      'tenant-kube-root-ca.crt',
      'skerry-a',
      'skerry-reserved-skerry-a',
      'plain',
    ];
    const superNames = names.map((name) => configMapKind.superName?.(name, testTenant()) ?? '');
    expect(new Set(superNames).size).toBe(names.length);
    expect(superNames.map((name) => configMapKind.tenantName?.(name))).toEqual(names);
  });

  it("an object of Skerry's own stands for no tenant object", () => {
    const name = configMapKind.tenantName?.('skerry-token-web') ?? '';
    expect(configMapKind.superName?.(name, testTenant())).not.toBe('skerry-token-web');
  });
});

describe('payload', () => {
  it('goes down whole', () => {
    const tenantObject = configMap('settings', { binaryData: { b: 'AA==' }, immutable: true });
    expect(configMapKind.toSuper(tenantObject, context())).toMatchObject({
      kind: 'ConfigMap',
      data: { level: 'debug', colour: 'blue' },
      binaryData: { b: 'AA==' },
      immutable: true,
    });
  });

  it('an update carries only what differs', () => {
    const superObject = configMapKind.toSuper(configMap(), context());
    expect(configMapKind.down(configMap(), superObject, context())).toEqual([]);
    const changed = configMap('settings', { data: { level: 'info', size: '3' } });
    expect(configMapKind.down(changed, superObject, context())).toEqual([
      { do: 'patchSuper', patch: { data: { level: 'info', size: '3', colour: null } }, isWhole: true },
    ]);
    const { data: _data, ...empty } = configMap();
    expect(configMapKind.down(empty as KubeObject, superObject, context())).toEqual([
      { do: 'patchSuper', patch: { data: null }, isWhole: true },
    ]);
  });

  it('repairs drift in the super object, by making it anew when it is immutable', () => {
    const superObject = {
      ...configMapKind.toSuper(configMap(), context()),
      data: { level: 'x' },
    } as KubeObject;
    expect(configMapKind.down(configMap(), superObject, context())).toEqual([
      { do: 'patchSuper', patch: { data: { level: 'debug', colour: 'blue' } }, isWhole: true },
    ]);
    expect(configMapKind.down(configMap(), { ...superObject, immutable: true }, context())).toEqual([
      { do: 'deleteSuper' },
    ]);
  });

  it('can be frozen later', () => {
    const superObject = configMapKind.toSuper(configMap(), context());
    expect(configMapKind.down(configMap('settings', { immutable: true }), superObject, context())).toEqual([
      { do: 'patchSuper', patch: { immutable: true }, isWhole: true },
    ]);
  });
});

describe.each([
  ['ConfigMaps', configMapKind],
  ['late ConfigMaps', lateConfigMapKind],
  ['Secrets', secretKind],
] as const)("labels and annotations of %s, by which operators' sidecars find them", (_, kind) => {
  const labels = { grafana_dashboard: '1', owner: 'helm', 'example.com/x': 'x', 'helm.sh/chart': 'web-1' };
  const annotations = { 'k8s-sidecar-target-directory': '/etc', note: 'x', 'checksum/config': '0' };
  const labelled = configMap('settings', {
    metadata: { name: 'settings', namespace: 'shop', uid: 'uid-settings', labels, annotations },
  });
  const own = (keys: Record<string, string> = {}) =>
    Object.keys(keys).filter((key) => !key.startsWith('skerry.dev/'));

  it('go down only where they are listed, also those without a prefix', () => {
    const { metadata } = kind.toSuper(labelled, context());
    expect(own(metadata.labels)).toEqual(['helm.sh/chart']);
    expect(own(metadata.annotations)).toEqual(['checksum/config']);
    const listed = context([], { allowedLabels: ['owner'], allowedAnnotations: ['note'] });
    const more = kind.toSuper(labelled, listed).metadata;
    expect([own(more.labels), own(more.annotations)]).toEqual([['owner'], ['note']]);
  });

  it('go from copies that an earlier version has given them', () => {
    const before = context([], {
      allowedLabels: Object.keys(labels),
      allowedAnnotations: Object.keys(annotations),
    });
    const superObject = kind.toSuper(labelled, before);
    expect(kind.down(labelled, superObject, context())).toMatchObject([
      {
        do: 'patchSuper',
        patch: {
          metadata: {
            labels: { grafana_dashboard: null, owner: null, 'example.com/x': null },
            annotations: {
              'k8s-sidecar-target-directory': null,
              note: null,
              'skerry.dev/synced-keys': '{"l":["helm.sh/chart"],"a":["checksum/config"]}',
            },
          },
        },
      },
    ]);
    const none = {
      ...labelled,
      metadata: { ...labelled.metadata, labels: { owner: 'helm' }, annotations: {} },
    };
    const patch = { metadata: { labels: { owner: null }, annotations: { 'skerry.dev/synced-keys': null } } };
    expect(kind.down(none, kind.toSuper(none, before), context())).toMatchObject([
      { do: 'patchSuper', patch },
    ]);
  });
});

it('copies transparent keys up', () => {
  const there = configMapKind.toSuper(configMap(), context());
  there.metadata.labels = { ...there.metadata.labels, 'operator.example/team': 'blue' };
  const transparent = context([], { transparentKeyPrefixes: ['operator.example/'] });
  expect(configMapKind.up?.(configMap(), there, transparent)).toEqual([
    { do: 'patchTenant', patch: { metadata: { labels: { 'operator.example/team': 'blue' } } } },
  ]);
});

it('is refused by name where it has fields that are not known, under its name as under a late one', () => {
  const superPod = podUsing('skerry-late-settings');
  superPod.metadata.namespace = superNamespaceName(testTenant(), 'shop');
  const awaited = testContext({ superObjects: [superPod], kinds: allKinds });
  const used = context([podUsing('settings')]);
  for (const [kind, there] of [
    [configMapKind, used],
    [lateConfigMapKind, awaited],
  ] as const) {
    const whole = configMap('settings', { immutable: true, binaryData: {}, status: {} });
    expect(kind.admit?.(whole, there)).toEqual({ wanted: true });
    expect(kind.admit?.(configMap('settings', { vault: {} }), there)).toMatchObject({
      wanted: false,
      keep: true,
      notice: { reason: 'UnknownField', message: expect.stringContaining('the field vault:') },
    });
  }
});
