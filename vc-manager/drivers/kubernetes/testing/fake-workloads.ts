import { type KubeObject, namespacedName, resources } from '../../../../kube/index.ts';
import type { FakeApiServer } from '../../../../kube/testing/index.ts';
import type { ContainerStatus, Pod, StatefulSet } from '../types.ts';

/** How a pod is doing; `ready` unless told otherwise. */
type Fate =
  | 'ready'
  | 'starting'
  | 'unschedulable'
  | { noNode: string }
  | { waiting: { reason: string; message?: string }; restarts?: number; exitCode?: number };

/** Plays the controller of StatefulSets, the scheduler and the kubelets on a fake API server. */
export class FakeWorkloads implements AsyncDisposable {
  readonly #server: FakeApiServer;
  readonly #fates = new Map<string, Fate>();
  readonly #running: Promise<void>;
  #stopped = false;
  #started = 0;
  /** Names of pods that do not end when they are told to. */
  readonly stubborn = new Set<string>();
  /** Component and image of every pod that was ever started, in order. */
  readonly history: { component: string; image: string }[] = [];

  constructor(server: FakeApiServer) {
    this.#server = server;
    this.#running = server.until(() => {
      if (!this.#stopped) this.#reconcile();
      return this.#stopped;
    });
  }

  /** Of a component, or of one pod of it. */
  set(name: string, fate: Fate): void {
    this.#fates.set(name, fate);
    this.#server.bump();
    this.#reconcile();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopped = true;
    this.#server.put(resources.configMaps, { metadata: { name: 'end', namespace: 'default' } });
    await this.#running;
  }

  #reconcile(): void {
    for (const pod of this.#server.list(resources.pods) as Pod[]) this.#end(pod);
    for (const set of this.#server.list(resources.statefulSets) as StatefulSet[]) this.#tend(set);
    const alive = new Set(
      this.#server.list(resources.statefulSets).map(({ metadata }) => namespacedName(metadata)),
    );
    for (const pod of this.#server.list(resources.pods)) {
      if (!alive.has(`${pod.metadata.namespace}/${pod.metadata.labels?.['skerry.dev/component']}`))
        this.#remove(pod);
    }
  }

  #end(pod: Pod): void {
    const { deletionTimestamp, deletionGracePeriodSeconds, name = '' } = pod.metadata;
    if (deletionTimestamp === undefined) return;
    if (this.stubborn.has(name) && deletionGracePeriodSeconds !== 0) return;
    this.#remove(pod);
  }

  #tend(set: StatefulSet): void {
    const { name = '', namespace = '', generation = 1, uid } = set.metadata;
    const spec = set.spec as {
      replicas: number;
      updateStrategy?: { rollingUpdate?: { partition?: number } };
      template: { metadata: KubeObject['metadata']; spec: KubeObject };
    };
    const revision = JSON.stringify(spec.template);
    for (let ordinal = 0; ordinal < 9; ordinal++) {
      const ref = { namespace, name: `${name}-${ordinal}` };
      const pod = this.#server.get(resources.pods, ref) as Pod | undefined;
      if (ordinal >= spec.replicas) {
        if (pod !== undefined) this.#remove(pod);
        continue;
      }
      const isKept = ordinal < (spec.updateStrategy?.rollingUpdate?.partition ?? 0);
      if (pod !== undefined && (isKept || pod.metadata['revision'] === revision)) {
        this.#show(pod, name);
        continue;
      }
      if (pod !== undefined) {
        this.#remove(pod);
        // It was told of changes while it did not listen.
        setImmediate(() => {
          if (!this.#stopped) this.#reconcile();
        });
        return;
      }
      const image = (spec.template.spec['containers'] as { image: string }[])[0]?.image ?? '';
      this.history.push({ component: name, image });
      this.#started += 1;
      this.#server.put(resources.pods, {
        metadata: {
          ...ref,
          labels: { ...spec.template.metadata.labels, 'controller-revision-hash': revision },
          uid: `pod-${this.#started}`,
          revision,
        },
        spec: { ...spec.template.spec, nodeName: 'node-1' } as unknown as KubeObject,
        status: this.#status(ref.name, name),
      });
    }
    const pods = (this.#server.list(resources.pods) as Pod[]).filter(
      (pod) => pod.metadata['revision'] === revision,
    );
    const ready = pods.filter((pod) => pod.status?.conditions?.[0]?.status === 'True').length;
    const status = {
      observedGeneration: generation,
      readyReplicas: ready,
      availableReplicas: ready,
      updatedReplicas: pods.length,
      currentRevision: ready === spec.replicas ? revision : 'earlier',
      updateRevision: revision,
    };
    if (JSON.stringify(set.status) !== JSON.stringify(status)) {
      this.#server.put(resources.statefulSets, {
        ...set,
        metadata: { ...set.metadata, ...(uid && { uid }) },
        status,
      });
    }
  }

  #show(pod: Pod, component: string): void {
    const status = this.#status(
      pod.metadata.name ?? '',
      component,
      pod.status?.containerStatuses?.[0]?.state?.running?.startedAt,
    );
    if (JSON.stringify(pod.status) !== JSON.stringify(status))
      this.#server.put(resources.pods, { ...pod, status });
  }

  #status(pod: string, component: string, startedAt = '2030-01-01T00:00:00Z'): NonNullable<Pod['status']> {
    const fate = this.#fates.get(pod) ?? this.#fates.get(component) ?? 'ready';
    if (fate === 'unschedulable')
      return { phase: 'Pending', conditions: [{ type: 'PodScheduled', status: 'False' }] };
    if (typeof fate === 'object' && 'noNode' in fate)
      return {
        phase: 'Pending',
        conditions: [{ type: 'PodScheduled', status: 'False', message: fate.noNode }],
      };
    const container: ContainerStatus = {
      name: component,
      restartCount: 0,
      state: { running: { startedAt } },
    };
    if (typeof fate === 'object') {
      container.restartCount = fate.restarts ?? 0;
      container.state = { waiting: fate.waiting };
      if (fate.exitCode !== undefined) {
        container.lastState = { terminated: { exitCode: fate.exitCode, finishedAt: startedAt } };
      }
    }
    return {
      phase: 'Running',
      conditions: [{ type: 'Ready', status: fate === 'ready' ? 'True' : 'False' }],
      containerStatuses: [container],
    };
  }

  /** A stubborn one is only told to go. */
  #remove(pod: KubeObject): void {
    const { name = '', namespace, deletionTimestamp, deletionGracePeriodSeconds } = pod.metadata;
    if (this.stubborn.has(name) && deletionGracePeriodSeconds !== 0) {
      if (deletionTimestamp !== undefined) return;
      this.#server.put(resources.pods, {
        ...pod,
        metadata: {
          ...pod.metadata,
          deletionTimestamp: '2030-01-01T00:00:00Z',
          deletionGracePeriodSeconds: 30,
        },
      });
      return;
    }
    this.#server.remove(resources.pods, { name, namespace });
  }
}
