import { describe, expect, it } from 'vitest';
import { formatQuantity, type KubeObject, largestQuantity, nano, resource } from '../../kube/index.ts';
import type { DownKind } from '../kinds/contract.ts';
import { summarized } from '../kinds/payload.ts';
import { allKinds } from '../kinds/registry.ts';
import { bytesOf, chargeOf } from './charges.ts';

const kindOf = (name: string): DownKind => allKinds.find((kind) => kind.name === name) as DownKind;

function charged(kind: string, parts: object): Record<string, string> {
  const { amounts } = chargeOf(kindOf(kind), { metadata: { name: 'x' }, ...parts });
  return Object.fromEntries([...amounts].map(([resource, amount]) => [resource, formatQuantity(amount)]));
}

const asks = (cpu: string, more: object = {}): object => ({
  name: `c${cpu}`,
  resources: { requests: { cpu } },
  ...more,
});

describe('what a pod takes', () => {
  const cpu = (spec: object, status: object = {}): string | undefined =>
    charged('pods', { spec, status })['requests.cpu'];

  it('is the sum of its containers, or the largest of its init containers, and the overhead', () => {
    const containers = [asks('1'), asks('500m')];
    expect(cpu({ containers })).toBe('1500m');
    expect(cpu({ containers, initContainers: [asks('1'), asks('2')] })).toBe('2');
    expect(cpu({ containers, overhead: { cpu: '250m' } })).toBe('1750m');
  });

  it('counts sidecars with the containers, and with the init containers that come after them', () => {
    const sidecar = asks('1', { restartPolicy: 'Always' });
    expect(cpu({ containers: [asks('1')], initContainers: [sidecar] })).toBe('2');
    expect(cpu({ containers: [asks('1')], initContainers: [sidecar, asks('3')] })).toBe('4');
    expect(cpu({ containers: [asks('1')], initContainers: [asks('3'), sidecar] })).toBe('3');
  });

  it('is what is asked for the pod as a whole, where that is', () => {
    expect(cpu({ containers: [asks('1')], resources: { requests: { cpu: '3' } } })).toBe('3');
  });

  it('is its limits where it has no requests, as the super cluster takes them for these', () => {
    const limited = { name: 'limited', resources: { limits: { cpu: '5' } } };
    expect(cpu({ containers: [limited, asks('1'), {}] })).toBe('6');
    expect(
      cpu({ containers: [{ ...limited, resources: { limits: { cpu: '5' }, requests: { cpu: '1' } } }] }),
    ).toBe('1');
    expect(cpu({ containers: [{}], initContainers: [limited] })).toBe('5');
    expect(cpu({ containers: [{}], resources: { limits: { cpu: '7' } } })).toBe('7');
    expect(cpu({ containers: [asks('1')], resources: { limits: { cpu: '7' } } })).toBe('1');
  });

  it('is not less than its containers ask for, whatever is asked for the pod as a whole', () => {
    expect(cpu({ containers: [asks('5')], resources: { requests: { cpu: '1m' } } })).toBe('5');
  });

  it('is what a container still has while it is made smaller', () => {
    const containerStatuses = [{ name: 'c1', allocatedResources: { cpu: '2' } }];
    expect(cpu({ containers: [asks('1')] }, { containerStatuses })).toBe('2');
  });

  it('is told by the first status of a name', () => {
    const shown = (cpu: string): object => ({ name: 'c1', allocatedResources: { cpu } });
    expect(cpu({ containers: [asks('1')] }, { containerStatuses: [shown('2'), shown('3')] })).toBe('2');
    expect(cpu({ containers: [asks('1')] }, { initContainerStatuses: [shown('2')] })).toBe('1');
  });

  it('is found without a look at each status for each container', () => {
    const count = 1_000;
    const containers = Array.from({ length: count }, (_, at) => asks('1', { name: `c${at}` }));
    let looks = 0;
    const containerStatuses = containers.map((_container, at) => ({
      get name() {
        looks += 1;
        return `c${count - 1 - at}`;
      },
      allocatedResources: { cpu: '2' },
    }));
    expect(cpu({ containers }, { containerStatuses })).toBe('2000');
    expect(looks).toBeLessThan(10 * count);
  });

  it('is nothing once it has finished', () => {
    for (const phase of ['Succeeded', 'Failed'])
      expect(charged('pods', { spec: { containers: [asks('1')] }, status: { phase } })).toEqual({
        objects: '1',
        'objects.bytes': expect.any(String),
        'count/pods': '1',
      });
  });

  it('has no bound where a container has no limit', () => {
    const limited = { resources: { limits: { cpu: '1' } } };
    const unbounded = (containers: object[]): readonly string[] =>
      chargeOf(kindOf('pods'), { metadata: {}, spec: { containers } }).unbounded;
    expect(unbounded([limited])).not.toContain('limits.cpu');
    expect(unbounded([limited, {}])).toContain('limits.cpu');
  });

  it('is the most there is where it cannot be read', () => {
    expect(cpu({ containers: [asks('lots')] })).toBe(formatQuantity(largestQuantity));
    expect(cpu({ containers: [asks('-5')] })).toBeUndefined();
    const odd = [null, 7, 'x', [], { resources: null }, { resources: { requests: { cpu: {} } } }];
    for (const containers of [null, 7, {}, odd]) expect(() => cpu({ containers })).not.toThrow();
  });
});

describe('what other objects take', () => {
  it('is node ports and load balancers by the type of a Service', () => {
    const ports = [{ port: 1 }, { port: 2, nodePort: 30_000 }];
    const of = (spec: object): object => charged('services', { spec: { ports, ...spec } });
    expect(of({ type: 'NodePort' })).toMatchObject({ services: '1', 'services.nodeports': '2' });
    expect(of({ type: 'LoadBalancer' })).toMatchObject({
      'services.loadbalancers': '1',
      'services.nodeports': '2',
    });
    expect(of({ type: 'LoadBalancer', allocateLoadBalancerNodePorts: false })).toMatchObject({
      'services.nodeports': '1',
    });
  });

  it('is storage, of all classes and of its own, and what is set aside for an expansion', () => {
    const spec = { storageClassName: 'gold', resources: { requests: { storage: '1Gi' } } };
    const status = { allocatedResources: { storage: '2Gi' } };
    expect(charged('persistentvolumeclaims', { spec, status })).toMatchObject({
      persistentvolumeclaims: '1',
      'requests.storage': '2Gi',
      'gold.storageclass.storage.k8s.io/requests.storage': '2Gi',
      'gold.storageclass.storage.k8s.io/persistentvolumeclaims': '1',
    });
  });

  it('counts kinds of a group by their full name', () => {
    expect(charged('ingresses', {})).toMatchObject({ 'count/ingresses.networking.k8s.io': '1' });
    expect(charged('namespaces', {})).toMatchObject({ 'count/namespaces': '1' });
  });

  it('is a custom resource, whatever kind it stands for', () => {
    const widgets = { ...kindOf('ingresses'), resource: resource('example.com', 'v1', 'pods', 'Pod', true) };
    const spec = { containers: [{ name: 'main', resources: { requests: { cpu: '1' } } }] };
    const { amounts } = chargeOf(widgets, { metadata: { name: 'x' }, spec }, true);
    const { 'objects.bytes': _bytes, ...counts } = Object.fromEntries(amounts);
    expect(counts).toEqual({ objects: nano, 'count/pods.example.com': nano, customresources: nano });
  });

  it('is a quarter of the memory that it takes, where that is more than its size as JSON', () => {
    const spec = { podSelector: {}, ingress: Array.from({ length: 10_000 }, () => ({})) };
    expect(JSON.stringify(spec).length).toBeLessThan(31_000);
    expect(Number(charged('networkpolicies', { spec })['objects.bytes'])).toBeGreaterThan(250_000);
    const annotations = { a: 'x'.repeat(30_000) };
    const large = charged('networkpolicies', { metadata: { name: 'x', annotations } });
    expect(Number(large['objects.bytes'])).toBeLessThan(31_000);
    // Of a payload only a summary is kept.
    const data = Object.fromEntries(Array.from({ length: 1_000 }, (_, index) => [`k${index}`, '']));
    const size = JSON.stringify({ metadata: { name: 'x' }, data }).length;
    expect(charged('configmaps', { data })['objects.bytes']).toBe(formatQuantity(BigInt(size) * nano));
  });

  it('is the size of what the cache has only a summary of', () => {
    const kind = kindOf('configmaps');
    const whole: KubeObject = { metadata: { name: 'x' }, data: { a: 'y'.repeat(100_000) } };
    const cached = summarized(kind.payload ?? [])(whole);
    expect(JSON.stringify(cached).length).toBeLessThan(1_000);
    expect(bytesOf(kind, cached)).toBeGreaterThan(100_000);
    expect(bytesOf(kind, { ...whole, data: {} }, cached)).toBeLessThan(1_000);
  });
});
