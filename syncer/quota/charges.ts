import {
  estimateBytes,
  isRecord,
  type KubeObject,
  largestQuantity,
  nano,
  parseExactQuantity,
} from '../../kube/index.ts';
import type { SuperObjects } from '../kinds/contract.ts';
import { payloadSummary } from '../kinds/payload.ts';

/** What one super object takes of each limited resource, in nano-units. */
export interface Charge {
  readonly amounts: ReadonlyMap<string, bigint>;
  /** Resources of which it may take as much as it likes, as a container without a limit does. */
  readonly unbounded: readonly string[];
}

/**
 * What a super object takes, by the rules of ResourceQuota. What cannot be read counts as the most there is: the super
 * cluster may read it.
 */
export function chargeOf(
  kind: SuperObjects,
  superObject: KubeObject,
  isCustom = false,
  bytes = bytesOf(kind, superObject),
): Charge {
  const { resource } = kind;
  const amounts = new Map<string, bigint>([
    ['objects', nano],
    ['objects.bytes', BigInt(Math.max(bytes, memoryOf(kind, superObject))) * nano],
    [countOf(kind), nano],
  ]);
  const unbounded: string[] = [];
  if (isCustom) amounts.set('customresources', nano);
  else if (resource.group === '') {
    if (kind.name === 'pods') chargePod(superObject, amounts, unbounded);
    else if (kind.name === 'services') chargeService(superObject, amounts);
    else if (kind.name === 'persistentvolumeclaims') chargeClaim(superObject, amounts);
    else if (kind.name === 'configmaps' || kind.name === 'secrets') amounts.set(kind.name, nano);
  }
  return { amounts, unbounded };
}

/** `count/ingresses.networking.k8s.io`: every object of the kind counts. */
function countOf({ name, resource }: SuperObjects): string {
  return `count/${resource.group === '' ? name : `${resource.plural}.${resource.group}`}`;
}

/**
 * A replica keeps super objects in memory, where a value takes several times its JSON: at the high guess, those of pods
 * take six times as much, empty objects in a list forty times.
 */
const memoryPerByte = 4;

/** What a super object takes in memory, in bytes of `objects.bytes`. Payloads are not kept. */
function memoryOf({ payload = [] }: SuperObjects, superObject: KubeObject): number {
  let bytes = estimateBytes(superObject);
  for (const field of payload) bytes -= estimateBytes(superObject[field]);
  return Math.ceil(bytes / memoryPerByte);
}

/** Size as JSON, with what the cache has only a summary of: that of `cached`, from which the object was made. */
export function bytesOf(kind: SuperObjects, superObject: KubeObject, cached = superObject): number {
  const shown = Buffer.byteLength(JSON.stringify(superObject));
  if (kind.payload === undefined || kind.payload.some((field) => superObject[field] !== undefined))
    return shown;
  return shown + payloadSummary(cached, kind.payload).bytes;
}

const computed = ['cpu', 'memory', 'ephemeral-storage'] as const;
const sides = ['requests', 'limits'] as const;

type Side = (typeof sides)[number];

function chargePod(pod: KubeObject, amounts: Map<string, bigint>, unbounded: string[]): void {
  const phase = fieldsOf(pod['status'])['phase'];
  if (phase === 'Succeeded' || phase === 'Failed') return;
  amounts.set('pods', nano);
  const parts = partsOf(pod);
  for (const side of sides) {
    for (const resource of computed) {
      const sum = podSum(parts, side, resource);
      if (sum === undefined) unbounded.push(`${side}.${resource}`);
      else if (sum > 0n) amounts.set(`${side}.${resource}`, sum);
    }
  }
}

/** A container of a pod's spec, with what its status says of it. */
interface ContainerParts {
  readonly container: Record<string, unknown>;
  readonly shown: Record<string, unknown> | undefined;
}

/** What of a pod is charged. */
interface PodParts {
  readonly spec: Record<string, unknown>;
  readonly containers: readonly ContainerParts[];
  readonly initContainers: readonly ContainerParts[];
}

function partsOf(pod: KubeObject): PodParts {
  const spec = fieldsOf(pod['spec']);
  const status = fieldsOf(pod['status']);
  return {
    spec,
    containers: withStatuses(spec['containers'], status['containerStatuses']),
    initContainers: withStatuses(spec['initContainers'], status['initContainerStatuses']),
  };
}

/** Of two statuses of one name the first counts. */
function withStatuses(containers: unknown, statuses: unknown): ContainerParts[] {
  const byName = new Map(
    itemsOf(statuses)
      .map(fieldsOf)
      .toReversed()
      .map((shown) => [shown['name'], shown]),
  );
  return itemsOf(containers)
    .map(fieldsOf)
    .map((container) => ({ container, shown: byName.get(container['name']) }));
}

/**
 * What a pod asks for, as the scheduler and ResourceQuota add it up: all containers and sidecars together, or the
 * largest moment of the init containers, then the overhead; what is asked for the pod as a whole goes before. Requests
 * that are not there are those that the super cluster will put there: its API server takes the limits for them, and drops
 * what is asked for the whole if it does not know it.
 * Undefined: a limit that is not there for all containers.
 */
function podSum(
  { spec, containers, initContainers }: PodParts,
  side: Side,
  resource: string,
): bigint | undefined {
  const overhead = amountIn(spec['overhead'], resource) ?? 0n;
  const forWhole = fieldsOf(spec['resources']);
  const whole = amountIn(forWhole[side], resource);
  if (side === 'limits' && whole !== undefined) return whole + overhead;
  let areAllAsked = true;
  let isAsked = false;
  const of = ({ container, shown }: ContainerParts): bigint => {
    const { requests, limits } = fieldsOf(container['resources']);
    const limit = amountIn(limits, resource);
    const asked = side === 'limits' ? limit : (amountIn(requests, resource) ?? limit);
    if (asked === undefined) areAllAsked = false;
    else isAsked = true;
    // A resize under way holds what the container had until it has ended.
    const had = amountIn(fieldsOf(shown?.['resources'])[side], resource) ?? 0n;
    const allocated = side === 'requests' ? (amountIn(shown?.['allocatedResources'], resource) ?? 0n) : 0n;
    return larger(asked ?? 0n, larger(had, allocated));
  };
  let running = 0n;
  for (const parts of containers) running += of(parts);
  let sidecars = 0n;
  let starting = 0n;
  for (const parts of initContainers) {
    const asked = of(parts);
    if (parts.container['restartPolicy'] === 'Always') {
      sidecars += asked;
      starting = larger(starting, sidecars);
    } else starting = larger(starting, sidecars + asked);
  }
  const sum = larger(running + sidecars, starting);
  if (side === 'requests') {
    const ofWhole = whole ?? (isAsked ? undefined : amountIn(forWhole['limits'], resource)) ?? 0n;
    return larger(sum, ofWhole) + overhead;
  }
  if (!areAllAsked) return undefined;
  return sum === 0n ? 0n : sum + overhead;
}

function chargeService(service: KubeObject, amounts: Map<string, bigint>): void {
  const { type, ports, allocateLoadBalancerNodePorts } = fieldsOf(service['spec']);
  amounts.set('services', nano);
  const all = itemsOf(ports);
  if (type === 'LoadBalancer') amounts.set('services.loadbalancers', nano);
  const chosen = all.filter((port) => (fieldsOf(port)['nodePort'] ?? 0) !== 0);
  const takesAll =
    type === 'NodePort' || (type === 'LoadBalancer' && allocateLoadBalancerNodePorts !== false);
  const taken = takesAll ? all.length : chosen.length;
  if (taken > 0) amounts.set('services.nodeports', BigInt(taken) * nano);
}

function chargeClaim(claim: KubeObject, amounts: Map<string, bigint>): void {
  const { resources, storageClassName } = fieldsOf(claim['spec']);
  const asked = amountIn(fieldsOf(resources)['requests'], 'storage') ?? 0n;
  // An expansion that has failed may ask for less again than is set aside.
  const aside = amountIn(fieldsOf(claim['status'])['allocatedResources'], 'storage') ?? 0n;
  const storage = larger(asked, aside);
  const prefixes = [
    '',
    ...(typeof storageClassName === 'string' && storageClassName !== ''
      ? [`${storageClassName}.storageclass.storage.k8s.io/`]
      : []),
  ];
  for (const prefix of prefixes) {
    amounts.set(`${prefix}persistentvolumeclaims`, nano);
    amounts.set(`${prefix}requests.storage`, storage);
  }
}

function amountIn(list: unknown, resource: string): bigint | undefined {
  const fields = fieldsOf(list);
  const text = Object.hasOwn(fields, resource) ? fields[resource] : undefined;
  if (text === undefined || text === null) return undefined;
  const amount = parseExactQuantity(text);
  if (amount === undefined) return largestQuantity;
  return amount > 0n ? amount : 0n;
}

function larger(one: bigint, other: bigint): bigint {
  return one > other ? one : other;
}

function fieldsOf(value: unknown): Record<string, unknown> {
  return isRecord(value) ? value : {};
}

function itemsOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
