import type { KubeObject, MergePatch } from '../../../kube/index.ts';
import { hasAddress, portKey, type ServiceSpec, sourceRangesAnnotation, specOf } from './types.ts';

/**
 * A Service gets another address without losing its UID only by being an ExternalName in between.
 * Annotation on the tenant object while it is: what has to come back, as JSON. The way back starts from this mark
 * alone,
 * so it does not matter which replica finds it.
 */
export const clusterIPChangeAnnotation = 'skerry.dev/moving';

/** Never resolves; stands in the object for the moment between the two steps. */
const placeholder = 'moving.skerry.invalid';

/** Fields that the API server empties when a Service becomes an ExternalName. */
const restoredFields = [
  'type',
  'externalName',
  'externalTrafficPolicy',
  'internalTrafficPolicy',
  'allocateLoadBalancerNodePorts',
  'loadBalancerClass',
  'loadBalancerSourceRanges',
  'healthCheckNodePort',
  'ipFamilyPolicy',
] as const;

interface Remembered {
  spec: Record<string, unknown>;
  nodePorts: Record<string, number>;
  sourceRanges?: string;
}

export function isChangingClusterIP(tenantObject: KubeObject): boolean {
  return tenantObject.metadata.annotations?.[clusterIPChangeAnnotation] !== undefined;
}

/** First step: the tenant object gives up its address and whatever else has to be chosen anew. */
export function startClusterIPChange(tenantObject: KubeObject): MergePatch {
  const own = specOf(tenantObject);
  const spec: Record<string, unknown> = {};
  for (const field of restoredFields) {
    if (own[field] !== undefined) spec[field] = own[field];
  }
  const nodePorts: Record<string, number> = {};
  for (const port of own.ports ?? []) {
    if (port.nodePort !== undefined && port.nodePort !== 0) nodePorts[portKey(port)] = port.nodePort;
  }
  const sourceRanges = tenantObject.metadata.annotations?.[sourceRangesAnnotation];
  const remembered: Remembered = { spec, nodePorts, ...(sourceRanges === undefined ? {} : { sourceRanges }) };
  return {
    metadata: {
      annotations: {
        [clusterIPChangeAnnotation]: JSON.stringify(remembered),
        ...(sourceRanges === undefined ? {} : { [sourceRangesAnnotation]: null }),
      },
    },
    // The rest (addresses, families, node ports) the API server clears because the patch does not change it.
    spec: { type: 'ExternalName', externalName: placeholder, loadBalancerSourceRanges: null },
  };
}

/**
 * Second step: the tenant object becomes again what it was. With a super object that has an address, the tenant object
 * takes the super object's numbers; without one, its own API server gives it a new address.
 */
export function finishClusterIPChange(
  tenantObject: KubeObject,
  superObject: KubeObject | undefined,
): MergePatch {
  const own = specOf(tenantObject);
  const remembered = parse(tenantObject.metadata.annotations?.[clusterIPChangeAnnotation]);
  const isBetween = own.type === 'ExternalName' && own.externalName === placeholder;
  if (remembered === undefined || !isBetween) {
    // Another client has written the Service meanwhile, or the annotation is not ours: leave it as it is.
    return { metadata: { annotations: { [clusterIPChangeAnnotation]: null } } };
  }
  const spec: Record<string, unknown> = { externalName: null, ...remembered.spec };
  if (own.ports !== undefined) {
    spec['ports'] = own.ports.map((port) => {
      const nodePort = remembered.nodePorts[portKey(port)];
      return nodePort === undefined ? port : { ...port, nodePort };
    });
  }
  const there: ServiceSpec = superObject === undefined ? {} : specOf(superObject);
  if (hasAddress(there)) {
    spec['clusterIP'] = there.clusterIP;
    if (spec['healthCheckNodePort'] !== undefined && there.healthCheckNodePort !== undefined) {
      spec['healthCheckNodePort'] = there.healthCheckNodePort;
    }
  }
  return {
    metadata: {
      annotations: {
        [clusterIPChangeAnnotation]: null,
        ...(remembered.sourceRanges === undefined
          ? {}
          : { [sourceRangesAnnotation]: remembered.sourceRanges }),
      },
    },
    spec,
  };
}

/** The tenant can write this annotation too: whatever is not what we write counts as nothing. */
function parse(value: string | undefined): Remembered | undefined {
  try {
    const { spec, nodePorts, sourceRanges } = JSON.parse(value ?? '') as Partial<Remembered>;
    if (typeof spec !== 'object' || spec === null || typeof spec['type'] !== 'string') return undefined;
    if (typeof nodePorts !== 'object' || nodePorts === null) return undefined;
    const known = Object.fromEntries(
      restoredFields.filter((field) => field in spec).map((field) => [field, spec[field]]),
    );
    return { spec: known, nodePorts, ...(typeof sourceRanges === 'string' ? { sourceRanges } : {}) };
  } catch {
    return undefined;
  }
}
