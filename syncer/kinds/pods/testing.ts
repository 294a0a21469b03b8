import { applyMergePatch, type KubeObject } from '../../../kube/index.ts';
import { endpointSliceKind } from '../endpoint-slices.ts';
import { namespaceKind } from '../namespaces.ts';
import { nodeKind } from '../nodes.ts';
import { serviceAccountKind } from '../service-accounts.ts';
import { serviceKind } from '../services/services.ts';
import type { Service } from '../services/types.ts';
import { type TestContextOptions, testContext } from '../testing.ts';
import { podKind } from './pods.ts';
import type { Container, EnvVar, Pod, PodSpec, PodStatus } from './types.ts';

export const superUid = '5c5c5c5c-0000-4000-8000-000000000002';
export const tenantUid = '7a7a7a7a-0000-4000-8000-000000000003';

/** A context that knows the indexes of the kinds that pods look at. */
export function podContext(options: TestContextOptions = {}) {
  const kinds = [podKind, namespaceKind, serviceAccountKind, serviceKind, endpointSliceKind, nodeKind];
  return testContext({ kinds, ...options });
}

export interface PodParts {
  metadata?: Partial<Pod['metadata']>;
  spec?: PodSpec;
  status?: PodStatus;
}

/** The pod `web` in the namespace `shop`, as the tenant's API server shows it after defaulting. */
export function tenantPod({ metadata = {}, spec = {}, status }: PodParts = {}): Pod {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: 'web',
      namespace: 'shop',
      uid: tenantUid,
      resourceVersion: '10',
      generation: 1,
      ...metadata,
    },
    spec: {
      containers: [{ name: 'main', image: 'nginx:1' }],
      restartPolicy: 'Always',
      terminationGracePeriodSeconds: 30,
      dnsPolicy: 'ClusterFirst',
      serviceAccountName: 'default',
      serviceAccount: 'default',
      securityContext: {},
      schedulerName: 'default-scheduler',
      tolerations: [
        {
          key: 'node.kubernetes.io/not-ready',
          operator: 'Exists',
          effect: 'NoExecute',
          tolerationSeconds: 300,
        },
        {
          key: 'node.kubernetes.io/unreachable',
          operator: 'Exists',
          effect: 'NoExecute',
          tolerationSeconds: 300,
        },
      ],
      priority: 0,
      preemptionPolicy: 'PreemptLowerPriority',
      enableServiceLinks: true,
      ...spec,
    },
    status: { phase: 'Pending', qosClass: 'BestEffort', ...status },
  };
}

/**
 * The super object as the super cluster's API server shows it: made from the tenant object, with a UID, defaults and
 * what is asked for.
 */
export function superPod(t: Pod, parts: PodParts = {}, context = podContext()): Pod {
  const made = podKind.toSuper(t, context) as Pod;
  return applyMergePatch(made, {
    metadata: { uid: superUid, resourceVersion: '77', generation: 1, ...parts.metadata },
    spec: {
      priority: 0,
      preemptionPolicy: 'PreemptLowerPriority',
      schedulerName: 'default-scheduler',
      serviceAccount: made.spec?.serviceAccountName,
      ...parts.spec,
    },
    status: { phase: 'Pending', qosClass: 'Burstable', ...parts.status },
  }) as Pod;
}

/** A container's variables without those that tell where the API server is. */
export function ownVariables(container: Container | undefined): EnvVar[] {
  return (container?.env ?? []).filter(({ name }) => !name.startsWith('KUBERNETES_'));
}

export function testNode(name: string): KubeObject {
  return { apiVersion: 'v1', kind: 'Node', metadata: { name, uid: `uid-of-${name}` } };
}

/** A Service of the namespace `shop`. */
export function testService(name: string, spec: Service['spec'] = {}, namespace = 'shop'): Service {
  const ports = [{ port: 80, protocol: 'TCP' }];
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace, uid: `uid-of-${namespace}-${name}` },
    spec: { type: 'ClusterIP', clusterIP: '10.112.4.20', ports, ...spec },
  };
}

/** The tenant's DNS, where its own API server has put it. */
export const clusterDns = testService('kube-dns', { clusterIP: '10.112.4.10' }, 'kube-system');
