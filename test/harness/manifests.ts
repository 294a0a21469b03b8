import { randomBytes } from 'node:crypto';
import type { KubeObject } from '../../kube/index.ts';

/** Nodes are simulated: the image is never pulled. */
export const image = 'registry.k8s.io/pause:3.10';

type Spec = Record<string, unknown>;

/** The namespace controller waits for half the grace period of a namespace's pods before it looks again. */
const quickToGo = { terminationGracePeriodSeconds: 1 };

export function namespace(name: string): KubeObject {
  return { apiVersion: 'v1', kind: 'Namespace', metadata: { name } };
}

export function pod(namespace: string, name: string, spec: Spec = {}): KubeObject {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { namespace, name, labels: { app: name } },
    spec: { ...quickToGo, containers: [container()], ...spec },
  };
}

export function container(fields: Spec = {}): Spec {
  return { name: 'main', image, ...fields };
}

export function deployment(
  namespace: string,
  name: string,
  replicas: number,
  podSpec: Spec = {},
): KubeObject {
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { namespace, name },
    spec: { replicas, selector: { matchLabels: { app: name } }, template: template(name, podSpec) },
  };
}

export function statefulSet(namespace: string, name: string, replicas: number, spec: Spec = {}): KubeObject {
  return {
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: { namespace, name },
    spec: {
      replicas,
      serviceName: name,
      selector: { matchLabels: { app: name } },
      template: template(name, {
        containers: [container({ volumeMounts: [{ name: 'data', mountPath: '/data' }] })],
      }),
      volumeClaimTemplates: [{ metadata: { name: 'data' }, spec: claimSpec() }],
      ...spec,
    },
  };
}

export function job(namespace: string, name: string, annotations: Record<string, string> = {}): KubeObject {
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { namespace, name },
    spec: {
      completions: 2,
      parallelism: 2,
      template: {
        metadata: { annotations },
        spec: { ...quickToGo, restartPolicy: 'Never', containers: [container()] },
      },
    },
  };
}

export function service(namespace: string, name: string, spec: Spec = {}): KubeObject {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { namespace, name },
    spec: { selector: { app: name }, ports: [{ name: 'http', port: 80, targetPort: 8080 }], ...spec },
  };
}

export function claim(namespace: string, name: string, spec: Spec = {}): KubeObject {
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { namespace, name },
    spec: { ...claimSpec(), ...spec },
  };
}

export function configMap(namespace: string, name: string, data: Record<string, string> = {}): KubeObject {
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace, name }, data };
}

/** So much that it takes some time to read and to compress. */
export function bulk(namespace: string): KubeObject[] {
  return Array.from({ length: 20 }, (_, count) =>
    configMap(namespace, `bulk-${count}`, { noise: randomBytes(600_000).toString('base64') }),
  );
}

export function secret(namespace: string, name: string, data: Record<string, string> = {}): KubeObject {
  return { apiVersion: 'v1', kind: 'Secret', metadata: { namespace, name }, stringData: data };
}

function claimSpec(): Spec {
  return {
    accessModes: ['ReadWriteOnce'],
    storageClassName: 'simulated',
    resources: { requests: { storage: '1Gi' } },
  };
}

function template(app: string, spec: Spec): Spec {
  return { metadata: { labels: { app } }, spec: { ...quickToGo, containers: [container()], ...spec } };
}

/** A slice of a Service without selector. */
export function endpointSlice(namespace: string, service: string, addresses: readonly string[]): KubeObject {
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { namespace, name: `${service}-1`, labels: { 'kubernetes.io/service-name': service } },
    addressType: 'IPv4',
    endpoints: addresses.map((address) => ({ addresses: [address], conditions: { ready: true } })),
    ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
  };
}
