import type { KubeObject } from '../../../kube/index.ts';
import type { Action, RefusedWrite } from '../action.ts';
import type { SyncContext } from '../context.ts';
import { isApiServerService, type ServicePort, specOf } from './model.ts';
import { startMove } from './moving.ts';
import { refusedPortsMark, withRefused } from './node-ports.ts';

/**
 * Ways round a number that is taken in the super cluster. `attempted` is S as it was to be; one with
 * a UID is there already, and the refused write was a patch of it.
 */
export function recover(
  refused: RefusedWrite,
  tenantObject: KubeObject,
  attempted: KubeObject,
  context: SyncContext,
): readonly Action[] | undefined {
  if (addressIsTaken(refused)) return moveTenant(tenantObject, context);
  const ports = specOf(attempted).ports ?? [];
  const taken = new Set(
    refused.causes.flatMap((cause) => {
      const index = /^spec\.ports\[(\d+)\]\.nodePort$/.exec(cause.field)?.[1];
      const nodePort = index === undefined ? undefined : ports[Number(index)]?.nodePort;
      return nodePort === undefined ? [] : [nodePort];
    }),
  );
  if (taken.size > 0) return withoutPorts(attempted, ports, taken);
  if (healthCheckPortIsTaken(refused)) return withoutHealthCheckPort(attempted);
  return undefined;
}

function addressIsTaken(refused: RefusedWrite): boolean {
  return refused.causes.some(
    (cause) => /^spec\.clusterIPs?$/.test(cause.field) && cause.message.includes('already allocated'),
  );
}

/** The server says so in an internal error, with no field named. */
function healthCheckPortIsTaken(refused: RefusedWrite): boolean {
  return /allocate requested HealthCheck NodePort/i.test(refused.message);
}

function moveTenant(tenantObject: KubeObject, context: SyncContext): readonly Action[] | undefined {
  if (context.tenant.serviceIpMode !== 'slice' || isApiServerService(tenantObject)) return undefined;
  const address = specOf(tenantObject).clusterIP ?? '';
  return [
    { do: 'patchTenant', patch: startMove(tenantObject) },
    {
      do: 'notice',
      notice: {
        type: 'Normal',
        reason: 'ClusterIPChanged',
        message: `cluster IP ${address} is taken in the cluster; the Service gets another one`,
      },
    },
  ];
}

function withoutPorts(
  attempted: KubeObject,
  ports: readonly ServicePort[],
  taken: ReadonlySet<number>,
): Action[] {
  const annotations = {
    ...attempted.metadata.annotations,
    [refusedPortsMark]: withRefused(attempted, [...taken]),
  };
  const notice: Action = {
    do: 'notice',
    notice: {
      type: 'Warning',
      reason: 'NodePortChanged',
      message: `node port ${[...taken].join(', ')} cannot be had in the cluster; the Service gets another one`,
    },
  };
  if (attempted.metadata.uid !== undefined) {
    const patch = { metadata: { annotations: { [refusedPortsMark]: annotations[refusedPortsMark] } } };
    return [{ do: 'patchSuper', patch }, notice];
  }
  const object: KubeObject = {
    ...attempted,
    metadata: { ...attempted.metadata, annotations },
    spec: {
      ...specOf(attempted),
      ports: ports.map((port) => {
        const { nodePort, ...rest } = port;
        return nodePort !== undefined && taken.has(nodePort) ? rest : port;
      }),
    },
  };
  return [{ do: 'createSuper', object }, notice];
}

function withoutHealthCheckPort(attempted: KubeObject): Action[] | undefined {
  const { healthCheckNodePort, ...spec } = specOf(attempted);
  if (healthCheckNodePort === undefined || attempted.metadata.uid !== undefined) return undefined;
  return [{ do: 'createSuper', object: { ...attempted, spec } }];
}
