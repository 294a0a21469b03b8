import {
  isAlreadyExists,
  type KubeClient,
  type KubeObject,
  type Resource,
  resources,
} from '../../../kube/index.ts';
import { simulatedStorageClass } from '../../local-stack/index.ts';

export const sampleNamespace = 'shop';

const pauseImage = 'registry.k8s.io/pause:3.10';

export interface SampleOptions {
  client: KubeClient;
  signal: AbortSignal;
  /** A claim and a pod that uses it; needs the StorageClass of the simulation. */
  withStorage: boolean;
}

/** Puts a small shop into a tenant. What is there already is left as it is. */
export async function createSamples({ client, signal, withStorage }: SampleOptions): Promise<void> {
  const objects: [Resource, KubeObject][] = [
    [resources.namespaces, { metadata: { name: sampleNamespace } }],
    [resources.deployments, deployment('web', 3)],
    [resources.services, service()],
  ];
  if (withStorage) {
    objects.push(
      [resources.persistentVolumeClaims, claim()],
      [resources.deployments, deployment('database', 1, 'data')],
    );
  }
  for (const [resource, object] of objects) {
    await client.create(resource, object, { signal }).catch((error: unknown) => {
      if (!isAlreadyExists(error)) throw error;
    });
  }
}

export interface SampleState {
  running: number;
  wanted: number;
}

/** How many of the pods of the shop run. */
export async function observeSamples(client: KubeClient, signal: AbortSignal): Promise<SampleState> {
  interface Deployment extends KubeObject {
    spec?: { replicas?: number };
  }
  interface Pod extends KubeObject {
    status?: { phase?: string };
  }
  const where = { namespace: sampleNamespace, signal };
  const { items: deployments } = await client.list<Deployment>(resources.deployments, where);
  const { items: pods } = await client.list<Pod>(resources.pods, where);
  return {
    wanted: deployments.reduce((sum, { spec }) => sum + (spec?.replicas ?? 1), 0),
    running: pods.filter(({ status }) => status?.phase === 'Running').length,
  };
}

function deployment(name: string, replicas: number, claimName?: string): KubeObject {
  const labels = { app: name };
  const volume = {
    volumes: [{ name: 'data', persistentVolumeClaim: { claimName } }],
  };
  const mount = { volumeMounts: [{ name: 'data', mountPath: '/data' }] };
  return {
    metadata: { name, namespace: sampleNamespace, labels },
    spec: {
      replicas,
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: {
          containers: [
            {
              name,
              image: pauseImage,
              resources: { requests: { cpu: '10m', memory: '16Mi' } },
              ...(claimName === undefined ? {} : mount),
            },
          ],
          ...(claimName === undefined ? {} : volume),
        },
      },
    },
  };
}

function service(): KubeObject {
  return {
    metadata: { name: 'web', namespace: sampleNamespace },
    spec: { selector: { app: 'web' }, ports: [{ port: 80, targetPort: 8080 }] },
  };
}

function claim(): KubeObject {
  return {
    metadata: { name: 'data', namespace: sampleNamespace },
    spec: {
      accessModes: ['ReadWriteOnce'],
      storageClassName: simulatedStorageClass,
      resources: { requests: { storage: '1Gi' } },
    },
  };
}
