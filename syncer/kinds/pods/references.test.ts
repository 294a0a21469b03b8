import { describe, expect, it } from 'vitest';
import { neededBy, referenceIds } from '../references.ts';
import { podKind } from './pods.ts';
import { references } from './references.ts';
import { podContext, tenantPod } from './testing.ts';

const pod = tenantPod({
  spec: {
    serviceAccountName: 'robot',
    imagePullSecrets: [{ name: 'pull' }],
    nodeName: 'n1',
    volumes: [
      { name: 'a', configMap: { name: 'cm-volume' } },
      { name: 'b', secret: { secretName: 'secret-volume' } },
      { name: 'c', persistentVolumeClaim: { claimName: 'data' } },
      { name: 'scratch', ephemeral: {} },
      { name: 'e', csi: { driver: 'd', nodePublishSecretRef: { name: 'secret-csi' } } },
      {
        name: 'f',
        projected: {
          sources: [
            { configMap: { name: 'cm-projected' } },
            { secret: { name: 'secret-projected' } },
            { serviceAccountToken: { path: 'token' } },
          ],
        },
      },
      { name: 'g', emptyDir: {} },
    ],
    initContainers: [
      {
        name: 'init',
        envFrom: [{ secretRef: { name: 'secret-from' } }, { configMapRef: { name: 'cm-from' } }],
      },
    ],
    containers: [
      {
        name: 'main',
        env: [
          { name: 'A', valueFrom: { configMapKeyRef: { name: 'cm-env', key: 'k' } } },
          { name: 'B', valueFrom: { secretKeyRef: { name: 'secret-env', key: 'k', optional: true } } },
          { name: 'C', valueFrom: { configMapKeyRef: { name: 'cm-volume', key: 'k' } } },
          { name: 'D', value: 'x' },
        ],
      },
    ],
    ephemeralContainers: [{ name: 'debug', envFrom: [{ secretRef: { name: 'secret-debug' } }] }],
  },
  status: { podIP: '10.1.0.5', podIPs: [{ ip: '10.1.0.5' }, { ip: 'fd00::5' }] },
});

const all = [
  'serviceaccounts/robot',
  'secrets/pull',
  'configmaps/cm-volume',
  'secrets/secret-volume',
  'persistentvolumeclaims/data',
  'persistentvolumeclaims/web-scratch',
  'secrets/secret-csi',
  'configmaps/cm-projected',
  'secrets/secret-projected',
  'secrets/secret-from',
  'configmaps/cm-from',
  'configmaps/cm-env',
  'secrets/secret-env',
  'secrets/secret-debug',
].sort();

describe('what a pod refers to', () => {
  it('is found in volumes, projections, variables, pull secrets and generated claims, each once', () => {
    const found = references(pod).map(({ kind, namespace, name }) => {
      expect(namespace).toBe('shop');
      return `${kind}/${name}`;
    });
    expect(found.sort()).toEqual(all);
  });

  it('is required before the pod as far as the tenant has it (sync rule `write-order`)', () => {
    const object = (kind: string, name: string, namespace = 'shop') => ({
      kind,
      metadata: { name, namespace },
    });
    const context = podContext({
      tenantObjects: [
        object('ServiceAccount', 'robot'),
        object('ConfigMap', 'cm-env'),
        object('PersistentVolumeClaim', 'web-scratch'),
        object('Secret', 'secret-env', 'another'),
      ],
    });
    expect(
      podKind
        .requires?.(pod, context)
        ?.map(({ kind, name }) => `${kind}/${name}`)
        .sort(),
    ).toEqual(['configmaps/cm-env', 'persistentvolumeclaims/web-scratch', 'serviceaccounts/robot']);
    expect(podKind.requires?.(tenantPod(), podContext())).toEqual([]);
  });

  it('is indexed by reference, by address and by node', () => {
    const { byNode } = podKind.indexes?.tenant ?? {};
    expect(referenceIds(podKind, pod)).toContain('secrets/shop/secret-env');
    expect(referenceIds(podKind, pod)).toHaveLength(all.length);
    expect(podKind.indexes?.super?.['byIP']?.(pod)).toEqual(['10.1.0.5', 'fd00::5']);
    expect(byNode?.(pod)).toEqual(['n1']);
    expect(byNode?.(tenantPod())).toEqual([]);
  });

  it("does not take the node's address for the pod's", () => {
    const hostNetwork = { ...pod, spec: { ...pod.spec, hostNetwork: true } };
    expect(podKind.indexes?.super?.['byIP']?.(hostNetwork)).toEqual([]);
  });

  it('does not take an address that a finished pod has given back for its own', () => {
    for (const phase of ['Succeeded', 'Failed']) {
      const finished = { ...pod, status: { ...pod.status, phase } };
      expect(podKind.indexes?.super?.['byIP']?.(finished)).toEqual([]);
    }
  });

  it('needs ConfigMaps and Secrets in the super cluster', () => {
    expect(new Set(neededBy(podKind, pod).map(({ kind }) => kind))).toEqual(
      new Set(['configmaps', 'secrets']),
    );
  });

  it('touches nodes where only used ones are shown', () => {
    const touched = (nodes: 'all' | 'used') =>
      podKind.touches?.tenant?.(pod, podContext({ tenant: { nodes } })).map(({ kind }) => kind);
    expect(touched('all')).toEqual([]);
    expect(touched('used')).toEqual(['nodes']);
    expect(podKind.touches?.membershipOnly).toBe(true);
  });

  it('touches the slices that name its address in the super cluster', () => {
    const slice = {
      kind: 'EndpointSlice',
      metadata: { name: 'db-1', namespace: 'shop' },
      endpoints: [{ addresses: ['10.1.0.5'] }],
    };
    const context = podContext({ tenantObjects: [slice] });
    const key = { kind: 'endpointslices', namespace: 'shop', name: 'db-1' };
    const touched = podKind.touches?.super;
    expect(touched?.(pod, context)).toContainEqual(key);
    expect(touched?.({ ...pod, status: {} }, context)).not.toContainEqual(key);
    expect(touched?.({ ...pod, status: { ...pod.status, phase: 'Failed' } }, context)).not.toContainEqual(
      key,
    );
  });
});
