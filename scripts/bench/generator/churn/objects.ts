import { configMapName, configMapsPerLane, type Step } from './lane.ts';

/** Annotation with the number of the operation that an object's state is of. */
export const operationKey = 'skerry-bench/op';
/** Label that all objects of one run have. */
export const runKey = 'skerry-bench/churn';

/** The object that a step creates, as JSON. */
export function created(step: Step, lane: number, run: string, operation: string): string {
  const metadata = {
    name: step.name,
    labels: { [runKey]: run, app: step.name },
    annotations: { [operationKey]: operation },
  };
  switch (step.kind) {
    case 'pods':
      return pod(metadata, [configMapName(lane, step.object % configMapsPerLane)]);
    case 'configmaps':
      return JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { operation } });
    case 'services': {
      const spec = { selector: { [runKey]: run }, ports: [{ port: 80, targetPort: 8080 }] };
      return JSON.stringify({ apiVersion: 'v1', kind: 'Service', metadata, spec });
    }
  }
}

/** The merge patch of an update: labels or annotations, and what a ConfigMap is there for. */
export function updated(step: Step, operation: string, turn: number): string {
  const labels = turn % 2 === 0 ? {} : { labels: { turn: String(turn) } };
  return JSON.stringify({
    metadata: { annotations: { [operationKey]: operation }, ...labels },
    ...(step.kind === 'configmaps' ? { data: { operation } } : {}),
  });
}

/** A pod that stays and uses every ConfigMap of a target, so that all of them are synced all the time. */
export function anchor(lanes: number): string {
  const names = Array.from({ length: lanes }, (_, lane) =>
    Array.from({ length: configMapsPerLane }, (_, place) => configMapName(lane, place)),
  );
  return pod({ name: 'anchor', labels: { app: 'anchor' } }, names.flat());
}

function pod(metadata: object, configMaps: string[]): string {
  const envFrom = configMaps.map((name) => ({ configMapRef: { name, optional: true } }));
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata,
    spec: {
      automountServiceAccountToken: false,
      containers: [{ name: 'main', image: 'example.com/bench', envFrom }],
      tolerations: [{ operator: 'Exists' }],
    },
  });
}
