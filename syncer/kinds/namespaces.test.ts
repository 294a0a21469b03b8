import { describe, expect, it } from 'vitest';
import { defaultPolicy } from '../../api/default-policy.ts';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import { applyMergePatch, type KubeObject } from '../../kube/index.ts';
import { isOurs, originalUid } from '../mapping/labels.ts';
import { superNamespaceName } from '../mapping/names.ts';
import { mirroredNamespaceLabels, superNamespaceSelector } from '../mapping/namespace-labels.ts';
import { matchesSelector } from '../mapping/network-isolation.ts';
import { namespaceKind } from './namespaces.ts';
import { carryOut, testContext, testNamespace } from './testing.ts';

const context = testContext();
const { tenant } = context;

describe('namespaces (sync rules `namespaces`, `namespace-names`, `namespace-metadata`)', () => {
  it('become super namespaces under a mapped name with the marks of all super objects', () => {
    const s = namespaceKind.toSuper(testNamespace('shop'), context);
    expect(s).toMatchObject({ apiVersion: 'v1', kind: 'Namespace' });
    expect(s.metadata.name).toBe(superNamespaceName(tenant, 'shop'));
    expect(s.metadata.namespace).toBeUndefined();
    expect(s.metadata.labels?.[labelKeys.namespace]).toBe('shop');
    expect(s.metadata.annotations?.[annotationKeys.tenantName]).toBe('acme/blue');
    expect([isOurs(s, tenant), originalUid(s)]).toEqual([true, 'uid-of-namespace-shop']);
  });

  it('lets labels and annotations down by allow-list only, kubernetes.io/metadata.name never', () => {
    const t = testNamespace('shop', { team: 'a', 'app.kubernetes.io/name': 'x' });
    t.metadata.annotations = { note: 'x', 'kubernetes.io/description': 'Where things are sold' };
    const { labels = {}, annotations = {} } = namespaceKind.toSuper(t, context).metadata;
    expect(Object.keys(labels).filter((key) => !key.startsWith('skerry.dev/'))).toEqual([
      'pod-security.kubernetes.io/enforce',
      'pod-security.kubernetes.io/enforce-version',
    ]);
    expect(Object.keys(annotations).filter((key) => !key.startsWith('skerry.dev/'))).toEqual([
      'kubernetes.io/description',
    ]);
  });

  it('does not let a tenant lift its own pod security', () => {
    const t = testNamespace('shop', { 'pod-security.kubernetes.io/enforce': 'privileged' });
    const s = namespaceKind.toSuper(t, context);
    expect(s.metadata.labels?.['pod-security.kubernetes.io/enforce']).toBe('baseline');
    const lifted = applyMergePatch(s, {
      metadata: { labels: { 'pod-security.kubernetes.io/enforce': 'privileged' } },
    });
    expect(namespaceKind.down(t, lifted as KubeObject, context)).toEqual([
      {
        do: 'patchSuper',
        patch: { metadata: { labels: { 'pod-security.kubernetes.io/enforce': 'baseline' } } },
      },
    ]);
  });

  it('carry the level that the tenant has', () => {
    const restricted = testContext({ tenant: { policy: { ...defaultPolicy, podSecurity: 'restricted' } } });
    const s = namespaceKind.toSuper(testNamespace('shop'), restricted);
    expect(s.metadata.labels?.['pod-security.kubernetes.io/enforce']).toBe('restricted');
  });

  it('need nothing once they are made, and leave what operators add to the super object', () => {
    const t = testNamespace('shop', { team: 'a' });
    const s = namespaceKind.toSuper(t, context);
    const touched = applyMergePatch(s, {
      metadata: { labels: { 'kubernetes.io/metadata.name': 'x', cost: '7' } },
    });
    expect(namespaceKind.down(t, touched as KubeObject, context)).toEqual([]);
  });

  it('keep labels of the tenant object under keys of Skerry, for selectors to find them (sync rule `pod-affinity`)', () => {
    const t = testNamespace('shop', { team: 'a', tier: 'x' });
    const s = namespaceKind.toSuper(t, context);
    const { matchLabels = {} } = superNamespaceSelector({ matchLabels: { team: 'a' } }, tenant);
    expect(s.metadata.labels).toMatchObject(matchLabels);
    const [teamKey = ''] = Object.keys(mirroredNamespaceLabels({ team: '' }));
    const [tierKey = ''] = Object.keys(mirroredNamespaceLabels({ tier: '' }));

    const changed = testNamespace('shop', { team: 'b' });
    const actions = namespaceKind.down(changed, s, context);
    expect(actions).toEqual([
      { do: 'patchSuper', patch: { metadata: { labels: { [teamKey]: 'b', [tierKey]: null } } } },
    ]);
    const after = carryOut({ tenantObject: changed, superObject: s }, actions);
    expect(namespaceKind.down(changed, after.superObject as KubeObject, context)).toEqual([]);
  });

  describe('with very many labels', () => {
    const labels = (count: number): Record<string, string> =>
      Object.fromEntries(Array.from({ length: count }, (_, at) => [`label-${at}`, '']));
    const mirrors = ({ metadata }: KubeObject): number =>
      Object.keys(metadata.labels ?? {}).filter((key) => key.startsWith('skerry.dev/label-')).length;
    const named = (count: number): KubeObject =>
      testNamespace('shop', { ...labels(count - 1), 'kubernetes.io/metadata.name': 'shop' });

    it('keep 500 of them, the name among them, and an event says so', () => {
      expect(mirrors(namespaceKind.toSuper(named(500), context))).toBe(500);
      expect(namespaceKind.admit?.(named(500), context)).toEqual({ wanted: true });
      const many = named(100_000);
      const s = namespaceKind.toSuper(many, context);
      expect(mirrors(s)).toBe(500);
      expect(s.metadata.labels).toMatchObject(
        mirroredNamespaceLabels({ 'kubernetes.io/metadata.name': 'shop' }),
      );
      const notice = { reason: 'NotSupported', message: expect.stringContaining('has 100000 labels') };
      expect(namespaceKind.admit?.(many, context)).toMatchObject({ wanted: true, notice });
      expect(namespaceKind.down(many, s, context)).toEqual([]);
      const before = { ...s, metadata: { ...s.metadata, labels: { 'skerry.dev/label-more': 'x' } } };
      expect(namespaceKind.down(many, before, context)).toMatchObject([
        { do: 'patchSuper', patch: { metadata: { labels: { 'skerry.dev/label-more': null } } } },
        { do: 'notice', notice },
      ]);
    });

    it('are found by selectors of 500 terms, and nothing by longer ones', () => {
      const selected = (count: number): boolean =>
        matchesSelector(
          superNamespaceSelector({ matchLabels: labels(count) }, tenant),
          namespaceKind.toSuper(testNamespace('shop', labels(501)), context).metadata.labels ?? {},
        );
      expect(selected(499)).toBe(true);
      expect(selected(501)).toBe(false);
      const absent = Array.from({ length: 501 }, (_, at) => ({ key: `x${at}`, operator: 'DoesNotExist' }));
      const { matchExpressions = [] } = superNamespaceSelector({ matchExpressions: absent }, tenant);
      expect(matchExpressions).toHaveLength(1);
    });
  });

  it('go down but for the one that holds node heartbeats', () => {
    const wanted = (name: string) => namespaceKind.admit?.(testNamespace(name), context).wanted;
    expect(['default', 'kube-system', 'kube-public', 'shop'].map(wanted)).toEqual([true, true, true, true]);
    expect(wanted('kube-node-lease')).toBe(false);
  });

  it('are deleted only after a live 404 (sync rule `confirmed-delete`)', () => {
    expect(namespaceKind.deleteNeedsLiveCheck).toBe(true);
  });
});
