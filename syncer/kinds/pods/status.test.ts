import { describe, expect, it } from 'vitest';
import { annotationKeys } from '../../../api/labels.ts';
import { applyMergePatch, resources } from '../../../kube/index.ts';
import type { Lookup, SyncContext } from '../../context.ts';
import { superNamespaceName } from '../../mapping/names.ts';
import { carryOut, testTenant } from '../testing.ts';
import { podKind } from './pods.ts';
import { refusedPodStatus, statusPatch, superGateConditions } from './status.ts';
import { type PodParts, podContext, superPod, superUid, tenantPod, tenantUid, testNode } from './testing.ts';
import type { Pod, PodStatus } from './types.ts';

describe('status', () => {
  const context = podContext({ tenantObjects: [testNode('n1')] });
  const home = superNamespaceName(testTenant(), 'shop');

  const bound = tenantPod({
    spec: { nodeName: 'n1' },
    metadata: { annotations: { [annotationKeys.superUid]: superUid } },
  });

  /** The tenant object after all that `up` wants; it must want nothing more then. */
  function settle(t: Pod, s: Pod): Pod {
    const after = carryOut({ tenantObject: t, superObject: s }, podKind.up?.(t, s, context) ?? [])
      .tenantObject as Pod;
    expect(podKind.up?.(after, s, context)).toEqual([]);
    return after;
  }

  function statusOf(theirs: PodStatus, t = bound, spec = {}): PodStatus {
    return settle(t, superPod(t, { spec: { nodeName: 'n1', ...spec }, status: theirs })).status ?? {};
  }

  const time = '2026-01-01T00:00:00Z';
  const running: PodStatus = {
    phase: 'Running',
    podIP: '10.1.0.5',
    podIPs: [{ ip: '10.1.0.5' }],
    hostIP: '192.0.2.1',
    hostIPs: [{ ip: '192.0.2.1' }],
    startTime: time,
    conditions: [
      { type: 'Ready', status: 'True', lastTransitionTime: time, lastProbeTime: null },
      { type: 'PodScheduled', status: 'True', lastTransitionTime: time },
    ],
    containerStatuses: [
      {
        name: 'main',
        ready: true,
        restartCount: 0,
        image: 'nginx:1',
        state: { running: { startedAt: time } },
      },
    ],
  };

  it('of thousands of conditions is compared without a look at each for each', () => {
    const count = 2_000;
    let looks = 0;
    const conditions = Array.from({ length: count }, (_, index) => ({
      get type() {
        looks += 1;
        return `example.com/gate-${index}`;
      },
      status: 'True' as const,
    }));
    const readinessGates = conditions.map((_, index) => ({ conditionType: `example.com/gate-${index}` }));
    const t: Pod = {
      ...bound,
      spec: { ...bound.spec, readinessGates },
      status: { ...running, conditions },
    };
    const s = superPod(t, { spec: { nodeName: 'n1' }, status: running });
    expect(statusPatch(t, s, context)?.['conditions']).toHaveLength(count + 2);
    expect(superGateConditions(t, s)).toHaveLength(count + 2);
    expect(looks).toBeLessThan(20 * count);
  });

  describe('binding (sync rule `pod-binding`)', () => {
    it('binds the tenant object where the super object is, with the UID of the super object as a mark, and writes the status in the same go', () => {
      const t = tenantPod();
      const s = superPod(t, { spec: { nodeName: 'n1' }, status: running });
      const actions = podKind.up?.(t, s, context) ?? [];
      expect(actions.map((action) => action.do)).toEqual(['bindTenant', 'patchTenant']);
      expect(actions[0]).toEqual({
        do: 'bindTenant',
        node: 'n1',
        annotations: { [annotationKeys.superUid]: superUid },
      });
      expect(settle(t, s)).toMatchObject({
        spec: { nodeName: 'n1' },
        status: { phase: 'Running', podIP: '10.1.0.5' },
      });
    });

    it('hands on where the node is, as binding the super object has noted it: an API server may not know a new node', () => {
      const zone = { 'topology.kubernetes.io/zone': 'a', 'topology.kubernetes.io/region': 'r' };
      const t = tenantPod();
      const s = superPod(t, { spec: { nodeName: 'n1' }, metadata: { labels: { ...zone, other: 'x' } } });
      expect(podKind.up?.(t, s, context)).toMatchObject([{ do: 'bindTenant', labels: zone }]);
      expect(settle(t, s).metadata.labels).toMatchObject(zone);
      expect(settle(t, s).metadata.labels).not.toHaveProperty('other');
    });

    it('makes sure first that the virtual node exists', () => {
      const t = tenantPod();
      const s = superPod(t, { spec: { nodeName: 'n2' } });
      expect(podKind.up?.(t, s, context)?.[0]).toEqual({
        do: 'require',
        keys: [{ kind: 'nodes', name: 'n2' }],
      });
    });

    it('shows an unschedulable super object as PodScheduled=False, scrubbed', () => {
      const t = tenantPod();
      const message = `0/3 nodes are available: pod has unbound claims in ${home}.`;
      const s = superPod(t, {
        status: {
          nominatedNodeName: 'n3',
          conditions: [
            {
              type: 'PodScheduled',
              status: 'False',
              reason: 'Unschedulable',
              message,
              lastTransitionTime: time,
            },
          ],
        },
      });
      const actions = podKind.up?.(t, s, context) ?? [];
      expect(actions.map((action) => action.do)).toEqual(['patchTenant']);
      const { status } = settle(t, s);
      expect(status?.conditions?.[0]).toMatchObject({
        reason: 'Unschedulable',
        message: '0/3 nodes are available: pod has unbound claims in shop.',
      });
      expect(status?.['nominatedNodeName']).toBe('n3');
    });

    describe('while the node has not said anything yet', () => {
      const scheduled = (lastTransitionTime: string, extra: PodStatus = {}): PodStatus => ({
        phase: 'Pending',
        conditions: [{ type: 'PodScheduled', status: 'True', lastTransitionTime }],
        ...extra,
      });
      const upAt = (status: PodStatus, t: Pod, afterMs: number) =>
        podKind.up?.(t, superPod(t, { spec: { nodeName: 'n1' }, status }), {
          ...context,
          nowMs: Date.parse(time) + afterMs,
        });

      it('binds the tenant object and leaves the status for a moment: one write does for both', () => {
        expect(upAt(scheduled(time), tenantPod(), 500)?.map((action) => action.do)).toEqual([
          'bindTenant',
          'later',
        ]);
        expect(upAt(scheduled(time), bound, 500)).toEqual([{ do: 'later', afterMs: 1_500 }]);
      });

      it('writes the status when the moment has passed, or clocks disagree', () => {
        for (const afterMs of [2_000, 3_600_000, -500])
          expect(upAt(scheduled(time), bound, afterMs)?.map((action) => action.do)).toEqual(['patchTenant']);
      });

      it('writes at once what the node has said, and what the scheduler could not do', () => {
        const told: PodStatus[] = [
          scheduled(time, { containerStatuses: running['containerStatuses'] }),
          scheduled(time, { podIP: '10.1.0.5' }),
          scheduled(time, { reason: 'NodeAffinity' }),
          { ...running },
          {
            phase: 'Pending',
            conditions: [{ type: 'PodScheduled', status: 'False', lastTransitionTime: time }],
          },
        ];
        for (const status of told)
          expect(upAt(status, bound, 500)?.map((action) => action.do)).toEqual(['patchTenant']);
      });

      it('does not wait with a pod that is on its way out', () => {
        const leaving = tenantPod({
          ...bound,
          metadata: { ...bound.metadata, deletionTimestamp: time, deletionGracePeriodSeconds: 30 },
        });
        expect(upAt(scheduled(time), leaving, 500)?.some(({ do: what }) => what === 'later')).toBe(false);
      });
    });

    it('does not bind a pod that is on its way out on either side', () => {
      const deletion = { deletionTimestamp: time, deletionGracePeriodSeconds: 30 };
      const kinds = (t: Pod, s: Pod) => podKind.up?.(t, s, context)?.map((action) => action.do);
      const leaving = tenantPod({ metadata: deletion });
      expect(kinds(leaving, superPod(leaving, { spec: { nodeName: 'n1' } }))).not.toContain('bindTenant');
      const t = tenantPod();
      expect(kinds(t, superPod(t, { spec: { nodeName: 'n1' }, metadata: deletion }))).not.toContain(
        'bindTenant',
      );
    });

    it('puts the mark back when somebody replaced all annotations of the tenant object', () => {
      const t = tenantPod({ spec: { nodeName: 'n1' } });
      const after = settle(t, superPod(t, { spec: { nodeName: 'n1' } }));
      expect(after.metadata.annotations?.[annotationKeys.superUid]).toBe(superUid);
    });
  });

  describe('status (sync rule `pod-status`)', () => {
    it('comes up whole, and wants nothing at the next look', () => {
      expect(statusOf(running)).toMatchObject(running);
    });

    it('costs one patch of what differs and nothing while nothing does', () => {
      const t = { ...bound, status: { ...running, qosClass: 'BestEffort' } };
      const s = superPod(t, { spec: { nodeName: 'n1' }, status: { ...running, phase: 'Succeeded' } });
      expect(podKind.up?.(t, s, context)).toEqual([
        { do: 'patchTenant', patch: { status: { phase: 'Succeeded' } }, subresource: 'status' },
      ]);
    });

    it("leaves qosClass and the claims of the tenant object's resources alone", () => {
      const t = { ...bound, status: { ...bound.status, resourceClaimStatuses: [{ name: 'x' }] } };
      const after = statusOf({ ...running, qosClass: 'Guaranteed', resourceClaimStatuses: [] }, t);
      expect(after).toMatchObject({ qosClass: 'BestEffort', resourceClaimStatuses: [{ name: 'x' }] });
    });

    it('takes away what the super object does not say any more', () => {
      const t = {
        ...bound,
        status: {
          ...running,
          reason: 'Evicted',
          message: 'gone',
          resources: { limits: { cpu: '1', memory: '1' } },
        },
      };
      const after = statusOf({ ...running, resources: { limits: { cpu: '2' } } }, t);
      expect(after).not.toHaveProperty('reason');
      expect(after).not.toHaveProperty('message');
      expect(after['resources']).toEqual({ limits: { cpu: '2' } });
    });

    it('gives a bound tenant object no nominated node', () => {
      expect(statusOf({ ...running, nominatedNodeName: 'n3' })).not.toHaveProperty('nominatedNodeName');
    });

    it('leaves out containers that the super cluster injected', () => {
      const status = (name: string) => ({ name, ready: true, restartCount: 0 });
      const after = statusOf({
        ...running,
        containerStatuses: [status('main'), status('proxy')],
        initContainerStatuses: [status('proxy-init')],
      });
      expect(after['containerStatuses']).toEqual([status('main')]);
      expect(after).not.toHaveProperty('initContainerStatuses');
    });

    it('knows no super namespace and no UID of the super object in what kubelet says of containers', () => {
      const waiting = (namespace: string, uid: string) => ({
        reason: 'CrashLoopBackOff',
        message: `back-off 10s restarting failed container=main pod=web_${namespace}(${uid})`,
      });
      const terminated = (name: string) => ({ exitCode: 1, message: `configmap "${name}" not found` });
      const after = statusOf({
        ...running,
        containerStatuses: [
          {
            name: 'main',
            state: { waiting: waiting(home, superUid) },
            lastState: { terminated: terminated('tenant-kube-root-ca.crt') },
          },
        ],
      });
      expect(after['containerStatuses']).toEqual([
        {
          name: 'main',
          state: { waiting: waiting('shop', tenantUid) },
          lastState: { terminated: terminated('kube-root-ca.crt') },
        },
      ]);
    });

    it("has one owner per type of condition: gates are the tenant's, what only the tenant object has is kept, the rest is the super object's", () => {
      const gate = { type: 'example.com/gate', status: 'True' } as const;
      const t = applyMergePatch(bound, {
        spec: { readinessGates: [{ conditionType: gate.type }] },
        status: {
          conditions: [
            { type: 'Ready', status: 'False' },
            gate,
            { type: 'DisruptionTarget', status: 'True', reason: 'EvictionByEvictionAPI' },
            { type: 'PodResizePending', status: 'True' },
          ],
        },
      }) as Pod;
      const theirs = {
        ...running,
        conditions: [
          { type: 'Ready', status: 'True' },
          { type: gate.type, status: 'False' },
          { type: 'super.example/gate', status: 'True' },
        ] as PodStatus['conditions'],
      } as PodStatus;
      const readinessGates = [{ conditionType: gate.type }, { conditionType: 'super.example/gate' }];
      expect(statusOf(theirs, t, { readinessGates }).conditions).toEqual([
        { type: 'Ready', status: 'True' },
        gate,
        { type: 'DisruptionTarget', status: 'True', reason: 'EvictionByEvictionAPI' },
      ]);
    });

    it("repeats of the tenant's own conditions none but those of gates, once there are too many of them", () => {
      const gate = { type: 'example.com/gate', status: 'True' } as const;
      const own = (count: number): Pod =>
        applyMergePatch(bound, {
          spec: { readinessGates: [{ conditionType: gate.type }] },
          status: {
            conditions: [
              ...Array.from({ length: count }, (_, at) => ({ type: `own.example/${at}`, status: 'True' })),
              { type: 'Ready', status: 'False' },
              gate,
            ],
          },
        }) as Pod;
      const readinessGates = [{ conditionType: gate.type }];
      const shownOf = (count: number) => statusOf(running, own(count), { readinessGates }).conditions ?? [];
      const types = ['Ready', 'PodScheduled', gate.type];
      expect(shownOf(10_000).map(({ type }) => type)).toEqual(types);
      expect(shownOf(10)).toHaveLength(10 + types.length);
      // While nothing differs, nothing is written.
      const t = own(10_000);
      const shown = {
        ...t,
        status: {
          ...running,
          conditions: [
            ...(running.conditions ?? []),
            ...(t.status?.conditions ?? []).filter(({ type }) => type !== 'Ready'),
          ],
        },
      };
      expect(
        podKind.up?.(
          shown,
          superPod(t, { spec: { nodeName: 'n1', readinessGates }, status: running }),
          context,
        ),
      ).toEqual([]);
    });

    it('does not mind the order of conditions, nor a time that is null here and absent there', () => {
      const t = {
        ...bound,
        status: {
          ...running,
          conditions: [...(running.conditions ?? [])].reverse().map(({ lastProbeTime: _, ...rest }) => rest),
        },
      };
      expect(podKind.up?.(t, superPod(t, { spec: { nodeName: 'n1' }, status: running }), context)).toEqual(
        [],
      );
    });

    describe('observedGeneration', () => {
      const t = { ...bound, metadata: { ...bound.metadata, generation: 4 } };
      const ready = { type: 'Ready', status: 'True' } as const;
      const observed = (superGeneration: number, seen: number, image = 'nginx:1', own: PodStatus = {}) => {
        const s = superPod(t, {
          metadata: { generation: superGeneration },
          spec: { nodeName: 'n1', containers: [{ name: 'main', image }] },
          status: {
            phase: 'Running',
            observedGeneration: seen,
            conditions: [{ ...ready, observedGeneration: seen }],
          },
        });
        const status = settle({ ...t, status: { ...t.status, ...own } }, s).status;
        return [status?.observedGeneration, status?.conditions?.[0]?.observedGeneration];
      };

      it("is the tenant object's generation once the super object has the spec made from it and was seen with it", () => {
        expect(observed(2, 2)).toEqual([4, 4]);
      });

      it('stays what it was while the super object has not the spec yet, or nobody has looked at it', () => {
        expect(observed(2, 2, 'nginx:0')).toEqual([undefined, undefined]);
        const own = { observedGeneration: 3, conditions: [{ ...ready, observedGeneration: 3 }] };
        expect(observed(2, 1, 'nginx:1', own)).toEqual([3, 3]);
        expect(observed(2, 2, 'nginx:0', own)).toEqual([3, 3]);
      });

      it('stays what it was while the super object has not heard of the deletion, which is a generation of the tenant object too', () => {
        const own = { observedGeneration: 3, conditions: [{ ...ready, observedGeneration: 3 }] };
        const deletion = { deletionTimestamp: '2026-01-01T00:00:30Z', deletionGracePeriodSeconds: 30 };
        const leaving = { ...t, metadata: { ...t.metadata, ...deletion }, status: { ...t.status, ...own } };
        const status = { observedGeneration: 2, conditions: [{ ...ready, observedGeneration: 2 }] };
        const s = (metadata: Pod['metadata']) =>
          superPod(t, { metadata: { generation: 2, ...metadata }, spec: { nodeName: 'n1' }, status });
        expect(podKind.up?.(leaving, s({}), context)).toMatchObject([{ do: 'deleteSuper' }]);
        expect(settle(leaving, s(deletion)).status).toMatchObject({
          observedGeneration: 4,
          conditions: [{ observedGeneration: 4 }],
        });
      });

      it('is not asked to go away when the super object has none', () => {
        const own = { observedGeneration: 3, conditions: [{ ...ready, observedGeneration: 3 }] };
        const withOwn = { ...t, status: { ...t.status, ...own } };
        const s = superPod(t, { spec: { nodeName: 'n1' }, status: { conditions: [ready] } });
        expect(podKind.up?.(withOwn, s, context)).toEqual([]);
      });
    });

    it('copies transparent keys up together with the mark', () => {
      const own = podContext({ tenant: { transparentKeyPrefixes: ['super.example/'] } });
      const t = tenantPod({ spec: { nodeName: 'n1' } });
      const s = superPod(t, {
        spec: { nodeName: 'n1' },
        metadata: { annotations: { 'super.example/zone': 'a' } },
      });
      expect(podKind.up?.(t, s, own)).toEqual([
        {
          do: 'patchTenant',
          patch: {
            metadata: { annotations: { 'super.example/zone': 'a', [annotationKeys.superUid]: superUid } },
          },
        },
      ]);
    });
  });
});

describe('pair', () => {
  const running: PodStatus = {
    phase: 'Running',
    podIP: '10.1.1.1',
    hostIP: '198.51.100.4',
    conditions: [{ type: 'Ready', status: 'True', message: '' }],
    containerStatuses: [
      { name: 'main', ready: true, state: { running: { startedAt: '2026-01-01T00:00:00Z' } } },
    ],
  };

  function pair(own: PodParts = {}, theirs: PodParts = {}): { t: Pod; s: Pod } {
    const annotations = { [annotationKeys.superUid]: superUid };
    const t = tenantPod({
      ...own,
      metadata: { annotations, ...own.metadata },
      spec: { nodeName: 'n1', ...own.spec },
      status: { ...running, ...own.status },
    });
    const s = superPod(t, {
      ...theirs,
      spec: { nodeName: 'n1', ...theirs.spec },
      status: { ...running, ...theirs.status },
    });
    return { t, s };
  }

  /** Knows of the super object and nothing else, and whoever asks for more makes the test fail. */
  function contextOf(s: Pod, hideNodes: boolean): SyncContext {
    const refused = (): never => {
      throw new Error('looked at another object');
    };
    const lookup: Lookup = {
      get: ((resource: unknown, { name }: { name: string }) =>
        resource === resources.pods && name === s.metadata.name ? s : refused()) as Lookup['get'],
      byIndex: refused,
      version: refused,
    };
    const tenant = testTenant({ hideNodes });
    return {
      tenant,
      tenantObjects: { get: refused, byIndex: refused, version: refused },
      superObjects: lookup,
      isReferenced: refused,
      dataKeysOf: refused,
      get nowMs(): number {
        return refused();
      },
    };
  }

  const deletionTimestamp = '2026-01-01T00:00:00Z';
  const told = { waiting: { reason: 'ErrImagePull', message: 'node n1 has no such image' } };
  const others: [string, PodParts, PodParts][] = [
    ['T without a node, which it is to get', { spec: { nodeName: '' } }, {}],
    ['T that is being deleted', { metadata: { deletionTimestamp } }, {}],
    ['S that is being deleted', {}, { metadata: { deletionTimestamp } }],
    ['T with an added container', { spec: { ephemeralContainers: [{ name: 'debug', image: 'sh' }] } }, {}],
    ['a text in the status', {}, { status: { message: 'n1 is full' } }],
    [
      'a text in a condition',
      {},
      { status: { conditions: [{ type: 'Ready', status: 'False', message: 'n1' }] } },
    ],
    ['a text of a container', {}, { status: { containerStatuses: [{ name: 'main', state: told }] } }],
    ['a last word of one', {}, { status: { initContainerStatuses: [{ name: 'main', lastState: told }] } }],
  ];

  describe('what is decided of a pod', () => {
    it.each([false, true])('that runs depends on its two sides alone (nodes hidden: %s)', (hideNodes) => {
      const hostIP = hideNodes ? testTenant().kubelet.address : running['hostIP'];
      const { t, s } = pair({ status: { hostIP } });
      expect(podKind.dependsOnlyOnPair?.(t, s)).toBe(true);
      const context = contextOf(s, hideNodes);
      expect(podKind.admit?.(t, context)).toEqual({ wanted: true });
      expect(podKind.down(t, s, context)).toEqual([]);
      expect(podKind.up?.(t, s, context)).toEqual([]);
    });

    it.each(others)('depends on more: %s', (_name, own, theirs) => {
      const { t, s } = pair(own, theirs);
      expect(podKind.dependsOnlyOnPair?.(t, s)).toBe(false);
    });
  });
});

describe('the status of a pod that is refused', () => {
  const nowMs = Date.parse('2026-01-01T00:00:00Z');
  const initialized = {
    type: 'Initialized',
    status: 'True' as const,
    lastTransitionTime: '2026-01-01T00:00:00Z',
  };
  const refused = (status: PodStatus, at = nowMs) => refusedPodStatus(tenantPod({ status }), 'not here', at);

  it('says why, as schedulers do, once, and keeps what others say', () => {
    const first = refused({ conditions: [initialized] });
    expect(first).toEqual({
      conditions: [
        initialized,
        {
          type: 'PodScheduled',
          status: 'False',
          reason: 'Unschedulable',
          message: 'not here',
          lastTransitionTime: '2026-01-01T00:00:00Z',
        },
      ],
    });
    expect(refused(first as PodStatus)).toBeUndefined();
  });

  it('does not follow a message that is another one each time', () => {
    const first = refused({}) as PodStatus;
    const again = (afterMs: number) =>
      refusedPodStatus(tenantPod({ status: first }), 'something else', nowMs + afterMs);
    expect(again(9_000)).toBeUndefined();
    expect(again(10_000)).toMatchObject({ conditions: [{ message: 'something else' }] });
  });

  it('does not repeat a list of conditions that is too large', () => {
    expect(refused({ conditions: Array.from({ length: 51 }, () => initialized) })).toBeUndefined();
  });

  it('takes what the tenant has written for what it is', () => {
    for (const conditions of ['x', [{ type: 'PodScheduled', lastTransitionTime: 5 }]])
      expect(refused({ conditions } as unknown as PodStatus)).toMatchObject({
        conditions: [{ status: 'False' }],
      });
  });
});
