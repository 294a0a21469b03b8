import { describe, expect, it } from 'vitest';
import { labelKeys } from '../../api/labels.ts';
import { applyMergePatch, type KubeObject } from '../../kube/index.ts';
import { isOurs, originalUid } from '../mapping/labels.ts';
import { superNamespaceName } from '../mapping/names.ts';
import { serviceAccountKind } from './service-accounts.ts';
import { testContext, testNamespace, testTenant } from './testing.ts';

const tenant = testTenant();
const home = superNamespaceName(tenant, 'shop');
const context = testContext({ superObjects: [testNamespace(home, { [labelKeys.tenant]: tenant.uid })] });

function account(name: string, extra: Record<string, unknown> = {}): KubeObject {
  return { kind: 'ServiceAccount', metadata: { name, namespace: 'shop', uid: `uid-of-${name}` }, ...extra };
}

/** As the super cluster's own controller makes it. */
const superDefault: KubeObject = {
  kind: 'ServiceAccount',
  metadata: { name: 'default', namespace: home, uid: 's', resourceVersion: '5' },
};

describe('service accounts (sync rule `service-accounts`)', () => {
  it('go down as a name and nothing else', () => {
    const t = account('robot', {
      secrets: [{ name: 'token' }],
      imagePullSecrets: [{ name: 'pull' }],
      automountServiceAccountToken: true,
    });
    t.metadata.labels = { app: 'x' };
    t.metadata.annotations = { 'eks.amazonaws.com/role-arn': 'arn', note: 'x' };
    const s = serviceAccountKind.toSuper(t, context);
    expect(Object.keys(s).sort()).toEqual(['apiVersion', 'automountServiceAccountToken', 'kind', 'metadata']);
    expect(s['automountServiceAccountToken']).toBe(false);
    const keys = [...Object.keys(s.metadata.labels ?? {}), ...Object.keys(s.metadata.annotations ?? {})];
    expect(keys.every((key) => key.startsWith('skerry.dev/'))).toBe(true);
    expect(s.metadata).toMatchObject({ name: 'robot', namespace: home });
    expect(serviceAccountKind.down(t, s, context)).toEqual([]);
  });

  it('adopt the default account of a super namespace by label (sync rule `write-order`)', () => {
    const t = account('default');
    expect(serviceAccountKind.adopts?.(superDefault, t, context)).toBe(true);
    const [action] = serviceAccountKind.down(t, superDefault, context);
    expect(action?.do).toBe('patchSuper');
    const after = applyMergePatch(
      superDefault,
      action?.do === 'patchSuper' ? action.patch : {},
    ) as KubeObject;
    expect([isOurs(after, tenant), originalUid(after)]).toEqual([true, 'uid-of-default']);
    expect(after['automountServiceAccountToken']).toBe(false);
    expect(serviceAccountKind.down(t, after, context)).toEqual([]);
  });

  it('adopt no other account, none of another tenant and none in a namespace that is not ours', () => {
    const t = account('default');
    const adopts = (s: KubeObject, c = context) => serviceAccountKind.adopts?.(s, t, c);
    const other = { ...superDefault, metadata: { ...superDefault.metadata, name: 'robot' } };
    const taken = {
      ...superDefault,
      metadata: { ...superDefault.metadata, labels: { [labelKeys.tenant]: 'other' } },
    };
    const elsewhere = { ...superDefault, metadata: { ...superDefault.metadata, namespace: 'kube-system' } };
    expect([adopts(other), adopts(taken), adopts(elsewhere)]).toEqual([false, false, false]);
    expect(adopts(superDefault, testContext({ superObjects: [testNamespace(home)] }))).toBe(false);
  });
});
