import type { KubeObject } from '../../../kube/index.ts';
import { hasNodePorts, portKey, type ServicePort, type ServiceSpec, specOf } from './types.ts';

/**
 * Annotation on the super object: node ports that the tenant object asked for and the super cluster would not give. It
 * tells a number that has to come up from one that the tenant has just chosen and that has to go down.
 */
export const refusedPortsAnnotation = 'skerry.dev/refused-node-ports';

function refusedPortsOf(superObject: KubeObject): ReadonlySet<number> {
  const value = superObject.metadata.annotations?.[refusedPortsAnnotation];
  return value === undefined ? none : new Set(value.split(',').map(Number));
}

const none: ReadonlySet<number> = new Set();

/**
 * The tenant object's ports as the super object should have them: the tenant object's node port numbers unless refused,
 * then those that the super object has.
 */
export function portsForSuper(wanted: ServiceSpec, superObject: KubeObject): ServicePort[] | undefined {
  if (wanted.ports === undefined) return undefined;
  const refused = refusedPortsOf(superObject);
  const present = byKey(specOf(superObject).ports);
  return wanted.ports.map((port) => {
    const { nodePort, ...rest } = port;
    if (!hasNodePorts(wanted)) return rest;
    if (nodePort !== undefined && nodePort !== 0 && !refused.has(nodePort)) return port;
    const assigned = present.get(portKey(port))?.nodePort;
    return assigned === undefined || assigned === 0 ? rest : { ...rest, nodePort: assigned };
  });
}

/** The tenant object's ports with the numbers that the super object got instead; `undefined` when there are no such. */
export function portsForTenant(tenantObject: KubeObject, superObject: KubeObject): ServicePort[] | undefined {
  const own = specOf(tenantObject);
  const there = specOf(superObject);
  if (own.ports === undefined || !hasNodePorts(own) || !hasNodePorts(there)) return undefined;
  const refused = refusedPortsOf(superObject);
  const present = byKey(there.ports);
  let changed = false;
  const ports = own.ports.map((port) => {
    const assigned = present.get(portKey(port))?.nodePort;
    const asked = port.nodePort ?? 0;
    if (assigned === undefined || assigned === 0 || assigned === asked) return port;
    if (asked !== 0 && !refused.has(asked)) return port;
    changed = true;
    return { ...port, nodePort: assigned };
  });
  return changed ? ports : undefined;
}

/** Whether the super object still remembers a refusal that the tenant object has got over. */
export function hasStaleRefusedPorts(tenantObject: KubeObject, superObject: KubeObject): boolean {
  const refused = refusedPortsOf(superObject);
  return (
    refused.size > 0 && !(specOf(tenantObject).ports ?? []).some((port) => refused.has(port.nodePort ?? 0))
  );
}

/** The value of the mark with further numbers in it. */
export function withRefused(superObject: KubeObject, numbers: readonly number[]): string {
  return [...new Set([...refusedPortsOf(superObject), ...numbers])].join(',');
}

const compared = ['name', 'protocol', 'port', 'targetPort', 'nodePort', 'appProtocol'] as const;

/** Compares what a port is known to consist of; a field that one side has never heard of is no difference. */
export function samePorts(
  a: readonly ServicePort[] | undefined,
  b: readonly ServicePort[] | undefined,
): boolean {
  if (a === undefined || b === undefined) return (a?.length ?? 0) === (b?.length ?? 0);
  return (
    a.length === b.length &&
    a.every((port, index) =>
      compared.every((field) => (port[field] || undefined) === (b[index]?.[field] || undefined)),
    )
  );
}

function byKey(ports: readonly ServicePort[] | undefined): Map<string, ServicePort> {
  return new Map((ports ?? []).map((port) => [portKey(port), port]));
}
