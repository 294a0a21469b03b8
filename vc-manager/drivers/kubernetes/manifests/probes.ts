import type { ComponentPlan } from '../../../control-plane/index.ts';
import { apiServer } from '../names.ts';

const periodSeconds = 1;

/**
 * Asked by the kubelet at the pod's own address and without credentials, so whatever the plan's probe says of host and
 * files does not matter. Until a component has come up for the first time nobody but the startup probe judges it.
 */
export function probesOf({ probe, name }: ComponentPlan): Record<string, unknown> {
  if (probe === undefined) return {};
  const { scheme, port, path, timeoutMs } = probe;
  const get = (at: string) => ({ httpGet: { scheme: scheme.toUpperCase(), port, path: at } });
  const live = get(livePath(name, path));
  return {
    startupProbe: {
      ...live,
      periodSeconds,
      timeoutSeconds: 5,
      failureThreshold: Math.ceil(timeoutMs / 1000 / periodSeconds),
    },
    readinessProbe: { ...get(path), periodSeconds, timeoutSeconds: 5, failureThreshold: 2 },
    livenessProbe: { ...live, periodSeconds, timeoutSeconds: 10, failureThreshold: 30 },
  };
}

/** An API server that has lost its datastore is not mended by a restart. */
function livePath(name: string, path: string): string {
  if (path !== '/readyz') return path;
  return name === apiServer ? '/livez?exclude=etcd' : '/livez';
}
