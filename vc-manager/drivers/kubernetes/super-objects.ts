import {
  apiVersionOf,
  isConflict,
  isNotFound,
  type KubeClient,
  type KubeObject,
  type ObjectRef,
  type Resource,
  resources,
} from '../../../kube/index.ts';
import { componentLabel, fieldManager, idLabel, namespaceOf } from './names.ts';
import type { Pod, StatefulSet } from './types.ts';

/** How this driver reads and writes the objects of control planes. */
export class SuperObjects {
  readonly client: KubeClient;

  constructor(client: KubeClient) {
    this.client = client;
  }

  /** What we write is ours alone, field by field; what others add to an object stays. */
  async apply<T extends KubeObject = KubeObject>(
    resource: Resource,
    object: KubeObject,
    signal: AbortSignal,
  ): Promise<T> {
    const { name = '', namespace } = object.metadata;
    const typed = { apiVersion: apiVersionOf(resource), kind: resource.kind, ...object };
    const options = { type: 'apply', fieldManager, force: true, signal } as const;
    return this.client.patch<T>(resource, { name, namespace }, typed, options);
  }

  /** Undefined instead of NotFound. */
  async find(resource: Resource, ref: ObjectRef, signal: AbortSignal): Promise<KubeObject | undefined> {
    try {
      return await this.client.get(resource, ref, { signal });
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  /** One that is gone, or another one by now, is as good as deleted. */
  async delete(
    resource: Resource,
    ref: ObjectRef,
    options: { signal: AbortSignal; uid?: string | undefined; gracePeriodSeconds?: number },
  ): Promise<void> {
    const { signal, uid, gracePeriodSeconds } = options;
    try {
      await this.client.delete(resource, ref, {
        ...(uid === undefined ? {} : { uid }),
        ...(gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds }),
        propagationPolicy: 'Background',
        signal,
      });
    } catch (error) {
      if (!isNotFound(error) && !isConflict(error)) throw error;
    }
  }

  async deletePods(pods: readonly Pod[], gracePeriodSeconds: number, signal: AbortSignal): Promise<void> {
    await Promise.all(
      pods.map(({ metadata }) => {
        const { namespace, name = '', uid } = metadata;
        return this.delete(resources.pods, { namespace, name }, { signal, uid, gracePeriodSeconds });
      }),
    );
  }

  async pods(id: string, component: string, signal: AbortSignal): Promise<Pod[]> {
    const labelSelector = `${idLabel}=${id},${componentLabel}=${component}`;
    const place = { namespace: namespaceOf(id), labelSelector, signal };
    return (await this.client.list<Pod>(resources.pods, place)).items;
  }

  async statefulSets(id: string, signal: AbortSignal): Promise<StatefulSet[]> {
    const labelSelector = `${idLabel}=${id},${componentLabel}`;
    const place = { namespace: namespaceOf(id), labelSelector, signal };
    return (await this.client.list<StatefulSet>(resources.statefulSets, place)).items;
  }
}
