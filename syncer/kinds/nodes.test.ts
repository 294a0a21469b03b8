import { describe, expect, it } from 'vitest';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import { type KubeObject, resources } from '../../kube/index.ts';
import type { TenantInfo } from '../context.ts';
import { shownNodeName } from '../mapping/node-names.ts';
import { nodeKind as kind } from './nodes.ts';
import { allKinds } from './registry.ts';
import { carryOut, testContext, testTenant } from './testing.ts';

const notReady = { key: 'node.kubernetes.io/not-ready', effect: 'NoSchedule' };

function condition(type: string, status: string, heartbeat = '2026-01-01T00:00:00Z') {
  return {
    type,
    status,
    reason: `${type}Reason`,
    message: 'm',
    lastHeartbeatTime: heartbeat,
    lastTransitionTime: '2026-01-01T00:00:00Z',
  };
}

function node(change: { spec?: Record<string, unknown>; status?: Record<string, unknown> } = {}): KubeObject {
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: {
      name: 'node-1',
      uid: 'uid-super-node',
      labels: {
        'kubernetes.io/os': 'linux',
        'kubernetes.io/arch': 'amd64',
        'kubernetes.io/hostname': 'node-1',
        'topology.kubernetes.io/zone': 'z1',
        'topology.kubernetes.io/region': 'r1',
        'skerry.dev/simulated': 'true',
        'node-role.kubernetes.io/worker': '',
        'rack.example/row': '7',
      },
      annotations: { 'node.alpha.kubernetes.io/ttl': '0' },
    },
    spec: {
      podCIDR: '10.244.1.0/24',
      podCIDRs: ['10.244.1.0/24'],
      providerID: 'cloud://secret/i-1',
      taints: [{ key: 'dedicated', value: 'gpu', effect: 'NoSchedule' }],
      ...change.spec,
    },
    status: {
      addresses: [{ type: 'InternalIP', address: '198.51.100.4' }],
      daemonEndpoints: { kubeletEndpoint: { Port: 10250 } },
      capacity: { cpu: '8', memory: '16Gi' },
      allocatable: { cpu: '7', memory: '15Gi' },
      nodeInfo: { kubeletVersion: 'v1.36.3', operatingSystem: 'linux', architecture: 'amd64' },
      conditions: [condition('Ready', 'True'), condition('MemoryPressure', 'False')],
      images: [{ names: ['registry.example/of-another-tenant'] }],
      volumesInUse: ['kubernetes.io/csi/x^y'],
      ...change.status,
    },
  };
}

function superPod(nodeName = 'node-1', tenant = testTenant().uid): KubeObject {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: 'p',
      namespace: 'super',
      uid: 'uid-p',
      labels: { [labelKeys.tenant]: tenant, [labelKeys.namespace]: 'shop' },
    },
    spec: { nodeName, containers: [] },
    status: { phase: 'Running' },
  };
}

function context(tenant: Partial<TenantInfo> = {}, superObjects: KubeObject[] = [], nowMs?: number) {
  return testContext({ tenant, superObjects, kinds: allKinds, ...(nowMs === undefined ? {} : { nowMs }) });
}

/** The tenant object as the tenant's API server has it after the create and one round of the syncer. */
function virtualNode(): KubeObject {
  const object = kind.toTenant(node(), context());
  return { ...object, metadata: { ...object.metadata, uid: 'uid-copy', resourceVersion: '3' } };
}

describe('sync rule `virtual-nodes`: which nodes there are', () => {
  it('all', () => {
    expect(kind.tenantRef(node(), context())).toEqual({ name: 'node-1' });
  });

  it('or those that a pod of this tenant is on', () => {
    const used = { nodes: 'used' } as const;
    expect(kind.tenantRef(node(), context(used))).toBeUndefined();
    expect(
      kind.tenantRef(node(), context(used, [superPod('node-2'), superPod('node-1', 'another')])),
    ).toBeUndefined();
    expect(kind.tenantRef(node(), context(used, [superPod()]))).toEqual({ name: 'node-1' });
  });

  it('a used one goes two minutes after its last pod', () => {
    const at = (nowMs: number) => context({ nodes: 'used' }, [node()], nowMs);
    const first = kind.superGone?.(virtualNode(), at(1_000_000)) ?? [];
    expect(first).toEqual([
      { do: 'patchTenant', patch: { metadata: { annotations: { 'skerry.dev/unused-since': '1000000' } } } },
      { do: 'later', afterMs: 120_000 },
    ]);
    const marked = carryOut({ tenantObject: virtualNode(), superObject: undefined }, first)
      .tenantObject as KubeObject;
    expect(kind.superGone?.(marked, at(1_060_000))).toEqual([{ do: 'later', afterMs: 60_000 }]);
    expect(kind.superGone?.(marked, at(1_120_000))).toEqual([{ do: 'deleteTenant' }]);
  });

  it('a pod that comes back in time starts the two minutes anew', () => {
    const marked = virtualNode();
    marked.metadata.annotations = { ...marked.metadata.annotations, 'skerry.dev/unused-since': '1000000' };
    expect(kind.up(marked, node(), context({ nodes: 'used' }, [superPod()]))).toEqual([
      { do: 'patchTenant', patch: { metadata: { annotations: { 'skerry.dev/unused-since': null } } } },
    ]);
  });

  it('a mark from the future or of nonsense counts as none', () => {
    for (const text of ['', 'x', '-5', '9000000']) {
      const marked = virtualNode();
      marked.metadata.annotations = { ...marked.metadata.annotations, 'skerry.dev/unused-since': text };
      const actions = kind.superGone?.(marked, context({ nodes: 'used' }, [node()], 1_000_000));
      expect(actions?.[0]?.do).toBe('patchTenant');
    }
  });

  it('one that is gone from the super cluster goes at once', () => {
    expect(kind.superGone?.(virtualNode(), context())).toEqual([{ do: 'deleteTenant' }]);
  });

  it('one that was replaced under its name goes at once too, used or not', () => {
    const replaced = { ...node(), metadata: { ...node().metadata, uid: 'uid-of-another' } };
    expect(kind.superGone?.(virtualNode(), context({ nodes: 'used' }, [replaced]))).toEqual([
      { do: 'deleteTenant' },
    ]);
  });

  it('all of the pool: nodes with the labels of spec.nodes.selector', () => {
    const pool = { nodeSelector: { 'rack.example/row': '7', 'kubernetes.io/os': 'linux' } };
    expect(kind.tenantRef(node(), context(pool))).toEqual({ name: 'node-1' });
    const elsewhere = { nodeSelector: { 'rack.example/row': '8' } };
    expect(kind.tenantRef(node(), context(elsewhere))).toBeUndefined();
    expect(kind.tenantRef(node(), context({ nodeSelector: { missing: '' } }))).toBeUndefined();
  });

  it('one that leaves the pool disappears, but not under the pods that are on it', () => {
    const elsewhere = { nodeSelector: { 'rack.example/row': '8' } };
    expect(kind.superGone?.(virtualNode(), context(elsewhere, [node()]))).toEqual([{ do: 'deleteTenant' }]);
    expect(kind.tenantRef(node(), context(elsewhere, [superPod()]))).toEqual({ name: 'node-1' });
  });

  it('one that is being deleted is not deleted again', () => {
    const leaving = virtualNode();
    leaving.metadata.deletionTimestamp = '2026-01-01T00:00:00Z';
    expect(kind.superGone?.(leaving, context())).toEqual([]);
    expect(kind.up(leaving, node({ spec: { unschedulable: true } }), context())).toEqual([]);
  });
});

describe('sync rule `virtual-nodes`: what a node says', () => {
  it('is where it is and what it has, under the address and port of the kubelet proxy', () => {
    expect(kind.toTenant(node(), context())).toMatchObject({
      metadata: {
        name: 'node-1',
        labels: {
          'kubernetes.io/os': 'linux',
          'kubernetes.io/arch': 'amd64',
          'kubernetes.io/hostname': 'node-1',
          'topology.kubernetes.io/zone': 'z1',
          'topology.kubernetes.io/region': 'r1',
          'skerry.dev/simulated': 'true',
        },
        annotations: { [annotationKeys.uid]: 'uid-super-node' },
      },
      status: {
        addresses: [
          { type: 'InternalIP', address: '198.51.100.4' },
          { type: 'Hostname', address: 'node-1' },
          { type: 'InternalDNS', address: '192.0.2.11' },
        ],
        daemonEndpoints: { kubeletEndpoint: { Port: 10250 } },
        capacity: { cpu: '8', memory: '16Gi' },
        allocatable: { cpu: '7', memory: '15Gi' },
        nodeInfo: { kubeletVersion: 'v1.36.3' },
      },
    });
  });

  it('is under the name of the kubelet proxy where that has one', () => {
    const kubelet = { address: '192.0.2.11', port: 10250, name: 'syncer-0.syncers' };
    const { status } = kind.toTenant(node(), context({ kubelet })) as { status?: { addresses: unknown[] } };
    expect(status?.addresses).toContainEqual({ type: 'InternalDNS', address: 'syncer-0.syncers' });
  });

  it('shows no address as a name where the kubelet proxy is at its own', () => {
    const own = { type: 'InternalIP', address: '192.0.2.11' };
    const superObject = node({ status: { addresses: [own] } });
    const { status } = kind.toTenant(superObject, context()) as { status?: { addresses: unknown[] } };
    expect(status?.addresses).toEqual([own, { type: 'Hostname', address: 'node-1' }]);
  });

  it("is nothing of the operator's: other labels, taints, pod ranges, provider, images, volumes", () => {
    const text = JSON.stringify(kind.toTenant(node(), context()));
    for (const secret of [
      'rack.example',
      'node-role',
      'dedicated',
      '10.244',
      'cloud://',
      'of-another-tenant',
      'csi/x',
    ]) {
      expect(text).not.toContain(secret);
    }
  });

  it('includes labels that the operator lists, by key or by prefix', () => {
    const labels = (nodeLabels: string[]) => kind.toTenant(node(), context({ nodeLabels })).metadata.labels;
    expect(labels(['rack.example/row'])).toMatchObject({ 'rack.example/row': '7' });
    expect(labels(['rack.example/'])).toMatchObject({ 'rack.example/row': '7' });
    for (const listed of ['rack.example', 'rack.example/r', 'rack']) {
      expect(labels([listed])).not.toHaveProperty('rack.example/row');
    }
  });

  it('includes labels that belong to the super cluster by prefix', () => {
    const object = kind.toTenant(node(), context({ transparentKeyPrefixes: ['rack.example/'] }));
    expect(object.metadata.labels).toMatchObject({ 'rack.example/row': '7' });
  });

  it('follows changes, not heartbeats', () => {
    const beat = node({
      status: {
        conditions: [
          condition('Ready', 'True', '2026-01-01T09:09:09Z'),
          condition('MemoryPressure', 'False', '2026-01-01T09:09:09Z'),
        ],
      },
    });
    expect(kind.up(virtualNode(), beat, context())).toEqual([]);
    const smaller = node({ status: { allocatable: { cpu: '6', memory: '15Gi' } } });
    expect(kind.up(virtualNode(), smaller, context())).toEqual([
      { do: 'patchTenant', subresource: 'status', patch: { status: { allocatable: { cpu: '6' } } } },
    ]);
  });

  it('a heartbeat is not even looked at; anything else is', () => {
    const beat = node({
      status: {
        conditions: [
          condition('Ready', 'True', '2026-01-01T09:09:09Z'),
          condition('MemoryPressure', 'False', '2026-01-01T09:09:09Z'),
        ],
      },
    });
    beat.metadata.resourceVersion = '77';
    expect(kind.isHeartbeat?.(node(), beat)).toBe(true);
    const changes: KubeObject[] = [
      node({ status: { conditions: [condition('Ready', 'False')] } }),
      node({ status: { allocatable: { cpu: '6' } } }),
      node({ status: { nodeInfo: { kubeletVersion: 'v1.37.0' } } }),
      node({ status: { addresses: [] } }),
      node({ spec: { unschedulable: true } }),
      { ...node(), metadata: { ...node().metadata, labels: {} } },
      { ...node(), metadata: { ...node().metadata, deletionTimestamp: '2026-01-01T00:00:00Z' } },
    ];
    for (const change of changes) expect(kind.isHeartbeat?.(node(), change)).toBe(false);
  });

  it('keeps conditions of types that only the tenant knows', () => {
    const tenantObject = virtualNode();
    const status = tenantObject['status'] as { conditions: unknown[] };
    status.conditions = [...status.conditions, condition('Mine', 'True')];
    expect(kind.up(tenantObject, node(), context())).toEqual([]);
    const changed = node({ status: { conditions: [condition('Ready', 'False')] } });
    const [, action] = kind.up(tenantObject, changed, context());
    if (action?.do !== 'patchTenant') throw new Error('no status patch');
    const { conditions } = action.patch['status'] as { conditions: { type: string; status: string }[] };
    expect(conditions.map(({ type, status }) => `${type}=${status}`)).toEqual([
      'Ready=False',
      'MemoryPressure=False',
      'Mine=True',
    ]);
  });

  it('does not stumble over fields that an older API server drops', () => {
    const newer = node({
      status: {
        nodeInfo: {
          kubeletVersion: 'v1.36.3',
          operatingSystem: 'linux',
          architecture: 'amd64',
          fieldOfTheFuture: {},
        },
      },
    });
    expect(kind.up(virtualNode(), newer, context())).toEqual([]);
  });
});

describe('sync rule `virtual-nodes`: condition taints follow Ready', () => {
  it('the one that the server adds to a new Node is taken off when the super object is Ready', () => {
    const fresh = virtualNode();
    fresh['spec'] = { ...(fresh['spec'] as object), taints: [notReady] };
    expect(kind.up(fresh, node(), context())).toEqual([
      { do: 'patchTenant', patch: { spec: { taints: [] } } },
    ]);
  });

  it.each([
    ['Ready', 'False', 'not-ready'],
    ['Ready', 'Unknown', 'unreachable'],
    ['DiskPressure', 'True', 'disk-pressure'],
  ])('%s=%s is shown as %s', (type, status, name) => {
    const others = type === 'Ready' ? [] : [condition('Ready', 'True')];
    const sick = node({ status: { conditions: [...others, condition(type, status)] } });
    const [action] = kind.up(virtualNode(), sick, context());
    expect(action).toEqual({
      do: 'patchTenant',
      patch: { spec: { taints: [{ key: `node.kubernetes.io/${name}`, effect: 'NoSchedule' }] } },
    });
    expect(kind.toTenant(sick, context())['spec']).toMatchObject({
      taints: [{ key: `node.kubernetes.io/${name}`, effect: 'NoSchedule' }],
    });
  });

  it('a node without a Ready condition is not ready', () => {
    expect(kind.toTenant(node({ status: { conditions: [] } }), context())['spec']).toMatchObject({
      taints: [notReady],
    });
  });

  it('a node that the operator has cordoned looks so', () => {
    const cordoned = node({ spec: { unschedulable: true } });
    const actions = kind.up(virtualNode(), cordoned, context());
    expect(actions).toEqual([
      {
        do: 'patchTenant',
        patch: {
          spec: {
            unschedulable: true,
            taints: [{ key: 'node.kubernetes.io/unschedulable', effect: 'NoSchedule' }],
          },
        },
      },
    ]);
    const { tenantObject } = carryOut({ tenantObject: virtualNode(), superObject: cordoned }, actions);
    expect(kind.up(tenantObject as KubeObject, cordoned, context())).toEqual([]);
  });
});

describe('sync rule `virtual-node-edits`: what a tenant does to a virtual node', () => {
  it('its own labels and taints stay', () => {
    const own = virtualNode();
    own.metadata.labels = { ...own.metadata.labels, 'team.example/owner': 'me' };
    own['spec'] = {
      ...(own['spec'] as object),
      taints: [{ key: 'mine', value: 'x', effect: 'NoExecute', timeAdded: '2026-01-01T00:00:00Z' }],
    };
    expect(kind.up(own, node(), context())).toEqual([]);
    const sick = node({
      status: { conditions: [condition('Ready', 'False'), condition('MemoryPressure', 'False')] },
    });
    const [action] = kind.up(own, sick, context());
    if (action?.do !== 'patchTenant') throw new Error('no patch');
    expect((action.patch['spec'] as { taints: { key: string }[] }).taints.map(({ key }) => key)).toEqual([
      'mine',
      notReady.key,
    ]);
  });

  it('a cordon is put back', () => {
    const cordoned = virtualNode();
    cordoned['spec'] = { ...(cordoned['spec'] as object), unschedulable: true };
    expect(kind.up(cordoned, node(), context())).toEqual([
      { do: 'patchTenant', patch: { spec: { unschedulable: null } } },
      {
        do: 'notice',
        notice: { type: 'Normal', reason: 'CordonFollowsCluster', message: expect.any(String) },
      },
    ]);
  });

  it('address, port and our labels are put back', () => {
    const edited = virtualNode();
    edited.metadata.labels = {
      ...edited.metadata.labels,
      'topology.kubernetes.io/zone': 'elsewhere',
    };
    const status = edited['status'] as Record<string, unknown>;
    status['addresses'] = [{ type: 'InternalIP', address: '169.254.169.254' }];
    status['daemonEndpoints'] = { kubeletEndpoint: { Port: 80 } };
    const actions = kind.up(edited, node(), context());
    expect(actions).toEqual([
      {
        do: 'patchTenant',
        patch: { metadata: { labels: { 'topology.kubernetes.io/zone': 'z1' } } },
      },
      {
        do: 'patchTenant',
        subresource: 'status',
        patch: {
          status: {
            addresses: [
              { type: 'InternalIP', address: '198.51.100.4' },
              { type: 'Hostname', address: 'node-1' },
              { type: 'InternalDNS', address: '192.0.2.11' },
            ],
            daemonEndpoints: { kubeletEndpoint: { Port: 10250 } },
          },
        },
      },
    ]);
  });

  it('the mark of a copy is put back: a virtual node is known by its provider field, which nobody can change', () => {
    const unmarked = virtualNode();
    delete unmarked.metadata.annotations;
    expect(kind.adopts?.(unmarked, node(), context())).toBe(true);
    expect(kind.up(unmarked, node(), context())).toEqual([
      { do: 'patchTenant', patch: { metadata: { annotations: { [annotationKeys.uid]: 'uid-super-node' } } } },
    ]);
    const own = { ...unmarked, spec: {} };
    expect(kind.adopts?.(own, node(), context())).toBe(false);
  });

  it('the provider field is filled from the start, so that nobody can fill it', () => {
    expect(kind.toTenant(node(), context())['spec']).toMatchObject({ providerID: 'skerry://node-1' });
  });
});

describe('sync rule `virtual-nodes`: hidden nodes', () => {
  const hideNodes = true;
  const real = () =>
    node({
      spec: { providerID: 'cloud://zone/node-1' },
      status: {
        addresses: [
          { type: 'InternalIP', address: '198.51.100.4' },
          { type: 'Hostname', address: 'host-1.example' },
        ],
        nodeInfo: {
          kubeletVersion: 'v1.36.3',
          operatingSystem: 'linux',
          machineID: 'machine-secret',
          systemUUID: 'system-secret',
          bootID: 'boot-secret',
        },
        conditions: [
          {
            ...condition('Ready', 'True'),
            message: 'kubelet on node-1 (198.51.100.4) is posting ready status',
          },
        ],
      },
    });
  const all = (tenant: Partial<TenantInfo> = {}, more: KubeObject[] = []) => {
    const labelled = real();
    labelled.metadata.labels = {
      ...labelled.metadata.labels,
      'rack.example/host': 'host-1.example',
      'rack.example/address': '198.51.100.4',
    };
    return context({ hideNodes, nodeLabels: ['rack.example/'], ...tenant }, [labelled, ...more]);
  };
  const shown = shownNodeName(testTenant({ hideNodes }), 'node-1');

  it("have a name of Skerry's own on the way up, and lead back on the way down", () => {
    expect(kind.tenantRef(real(), all())).toEqual({ name: shown });
    expect(kind.copyName?.('node-1', all())).toBe(shown);
    expect(kind.superRef({ name: shown }, all())).toEqual({ name: 'node-1' });
    expect(kind.superRef({ name: 'node-1' }, all())).toBeUndefined();
  });

  it('give away neither name nor address nor machine, in labels, addresses, ids, messages or annotations', () => {
    const superObject = all().superObjects.get(resources.nodes, { name: 'node-1' }) as KubeObject;
    const copy = kind.toTenant(superObject, all());
    expect(copy).toMatchObject({
      metadata: {
        name: shown,
        labels: { 'kubernetes.io/hostname': shown, 'kubernetes.io/os': 'linux', 'rack.example/row': '7' },
      },
      spec: { providerID: `skerry://${shown}` },
      status: {
        addresses: [
          { type: 'InternalIP', address: '192.0.2.11' },
          { type: 'Hostname', address: shown },
        ],
        nodeInfo: { kubeletVersion: 'v1.36.3', machineID: '', systemUUID: '', bootID: '' },
        conditions: [{ type: 'Ready', message: `kubelet on ${shown} (192.0.2.11) is posting ready status` }],
      },
    });
    const text = JSON.stringify(copy);
    for (const secret of ['node-1', '198.51.100.4', 'host-1', '-secret', 'cloud://']) {
      expect(text).not.toContain(secret);
    }
    expect(kind.up(copy, superObject, all())).toEqual([]);
  });

  it('follow what the real ones do', () => {
    const superObject = all().superObjects.get(resources.nodes, { name: 'node-1' }) as KubeObject;
    const copy = kind.toTenant(superObject, all());
    const cordoned = { ...superObject, spec: { ...(superObject['spec'] as object), unschedulable: true } };
    expect(kind.up(copy, cordoned, all())).toMatchObject([{ patch: { spec: { unschedulable: true } } }]);
    const pod = superPod();
    expect(kind.tenantRef(real(), all({ nodes: 'used' }, [pod]))).toEqual({ name: shown });
    expect(kind.tenantRef(real(), all({ nodes: 'used' }))).toBeUndefined();
    expect(kind.superGone?.(copy, all({ nodes: 'used' }))).toMatchObject([
      { do: 'patchTenant' },
      { do: 'later' },
    ]);
  });

  it('that are hidden from now on stay under their old name while pods are bound to it', () => {
    const bound: KubeObject = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'web', namespace: 'shop' },
      spec: { nodeName: 'node-1', containers: [] },
    };
    const among = (tenantObjects: KubeObject[]) =>
      testContext({ tenant: { hideNodes }, superObjects: [real()], tenantObjects, kinds: allKinds });
    expect(kind.superGone?.(virtualNode(), among([bound]))).toEqual([]);
    expect(kind.superGone?.(virtualNode(), among([]))).toEqual([{ do: 'deleteTenant' }]);
    const gone = testContext({ tenant: { hideNodes }, tenantObjects: [bound], kinds: allKinds });
    expect(kind.superGone?.(virtualNode(), gone)).toEqual([{ do: 'deleteTenant' }]);
  });
});

it('the caches hold neither images nor attached volumes', () => {
  const compacted = kind.compact?.super?.(node())['status'];
  expect(compacted).not.toHaveProperty('images');
  expect(compacted).not.toHaveProperty('volumesInUse');
  expect(compacted).toHaveProperty('capacity');
});
