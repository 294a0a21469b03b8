/** What the metrics API says of itself. */
export const metricsGroup = 'metrics.k8s.io';
export const metricsVersion = `${metricsGroup}/v1beta1`;

const version = { groupVersion: metricsVersion, version: 'v1beta1' };
const group = { name: metricsGroup, versions: [version], preferredVersion: version };
const verbs = ['get', 'list'];

const documents: Readonly<Record<string, object>> = {
  '/apis': { kind: 'APIGroupList', apiVersion: 'v1', groups: [group] },
  [`/apis/${metricsGroup}`]: { kind: 'APIGroup', apiVersion: 'v1', ...group },
  [`/apis/${metricsVersion}`]: {
    kind: 'APIResourceList',
    apiVersion: 'v1',
    groupVersion: metricsVersion,
    resources: [
      { name: 'nodes', singularName: '', namespaced: false, kind: 'NodeMetrics', verbs },
      { name: 'pods', singularName: '', namespaced: true, kind: 'PodMetrics', verbs },
    ],
  },
};

/** The discovery document at a path, if there is one. */
export function discoveryDocument(path: string): object | undefined {
  const name = path.replace(/\/+$/, '');
  return Object.hasOwn(documents, name) ? documents[name] : undefined;
}

/** A refusal as Kubernetes' clients understand it. */
export function statusOf(code: number, message: string): object {
  return {
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Failure',
    message,
    reason: reasons[code],
    code,
  };
}

const reasons: Readonly<Record<number, string>> = {
  400: 'BadRequest',
  404: 'NotFound',
  405: 'MethodNotAllowed',
  500: 'InternalError',
  503: 'ServiceUnavailable',
};
