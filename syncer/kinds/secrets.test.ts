import { describe, expect, it } from 'vitest';
import type { KubeObject } from '../../kube/index.ts';
import type { TenantInfo } from '../context.ts';
import { allKinds } from './registry.ts';
import { secretKind } from './secrets.ts';
import { testContext, testTenant } from './testing.ts';

function secret(type = 'Opaque', name = 'key'): KubeObject {
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name, namespace: 'shop', uid: `uid-${name}` },
    type,
    data: { token: 'YQ==' },
  };
}

function podUsing(name: string): KubeObject {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'user', namespace: 'shop', uid: 'uid-pod' },
    spec: { containers: [{ name: 'main', image: 'x', envFrom: [{ secretRef: { name } }] }] },
  };
}

function context(tenantObjects: KubeObject[] = [], tenant: Partial<TenantInfo> = {}) {
  return testContext({ tenant, tenantObjects, kinds: allKinds });
}

describe('which Secrets go down', () => {
  it('those that a synced pod uses, those marked, or all', () => {
    expect(secretKind.admit?.(secret(), context())).toEqual({ wanted: false });
    expect(secretKind.admit?.(secret(), context([podUsing('key')]))).toEqual({ wanted: true });
    expect(secretKind.admit?.(secret(), context([], { syncSecrets: 'all' }))).toEqual({ wanted: true });
    const marked = secret();
    marked.metadata.labels = { 'skerry.dev/sync': 'true' };
    expect(secretKind.admit?.(marked, context())).toEqual({ wanted: true });
  });

  it('not those that only a pod uses which does not go down', () => {
    const refused = podUsing('key');
    refused['spec'] = { ...(refused['spec'] as object), hostPID: true };
    expect(secretKind.admit?.(secret(), context([refused]))).toEqual({ wanted: false });
  });

  it('skerry-* is reserved', () => {
    expect(
      secretKind.admit?.(secret('Opaque', 'skerry-x'), context([], { syncSecrets: 'all' })),
    ).toMatchObject({ wanted: false, notice: { reason: 'ReservedName' } });
    expect(secretKind.admit?.(secret('Opaque', 'skerry-x'), context([podUsing('skerry-x')]))).toEqual({
      wanted: false,
    });
    expect(secretKind.superName?.('skerry-x', testTenant())).not.toBe('skerry-x');
  });
});

describe('types', () => {
  it('a service account token is Opaque in the super object', () => {
    expect(secretKind.toSuper(secret('kubernetes.io/service-account-token'), context())).toMatchObject({
      type: 'Opaque',
      data: { token: 'YQ==' },
    });
  });

  it('others stay what they are', () => {
    for (const type of [
      'Opaque',
      'kubernetes.io/tls',
      'kubernetes.io/dockerconfigjson',
      'bootstrap.kubernetes.io/token',
    ]) {
      expect(secretKind.toSuper(secret(type), context())['type']).toBe(type);
    }
  });

  it('a type cannot be changed, so the super object is made anew', () => {
    const superObject = secretKind.toSuper(secret('kubernetes.io/tls'), context());
    expect(secretKind.down(secret(), superObject, context())).toEqual([{ do: 'deleteSuper' }]);
  });
});

it('an update carries only what differs', () => {
  const superObject = secretKind.toSuper(secret('kubernetes.io/service-account-token'), context());
  const tenantObject = secret('kubernetes.io/service-account-token');
  expect(secretKind.down(tenantObject, superObject, context())).toEqual([]);
  tenantObject['data'] = { token: 'YQ==', more: 'Yg==' };
  expect(secretKind.down(tenantObject, superObject, context())).toEqual([
    { do: 'patchSuper', patch: { data: { more: 'Yg==' } }, isWhole: true },
  ]);
});
