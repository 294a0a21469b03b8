import { describe, expect, it } from 'vitest';
import { defaultPolicy } from '../../../api/policy.ts';
import { applyMergePatch, type KubeObject, resources } from '../../../kube/index.ts';
import type { Action, SyncContext } from '../contract.ts';
import { podKind } from './pods.ts';
import { podContext, superPod, tenantPod, testService } from './testing.ts';
import type { Container, Pod, PodSpec } from './types.ts';
import { resourcesMark } from './updates.ts';

describe('ephemeral', () => {
  const debug: Container = { name: 'debugger', image: 'busybox:1' };

  function running(ephemeralContainers: Container[], spec = {}): Pod {
    return tenantPod({
      spec: { nodeName: 'n1', ephemeralContainers, ...spec },
      metadata: { annotations: { 'skerry.dev/super-uid': '5c5c5c5c-0000-4000-8000-000000000002' } },
    });
  }

  function actions(t: Pod, s: Pod, context: SyncContext = podContext()): readonly Action[] {
    return [...podKind.down(t, s, context), ...(podKind.up?.(t, s, context) ?? [])];
  }

  function sent(all: readonly Action[]): Container[] | undefined {
    const patch = all.find(
      (action) => action.do === 'patchSuper' && action.subresource === 'ephemeralcontainers',
    );
    if (patch?.do !== 'patchSuper') return undefined;
    expect(Object.keys(patch.patch)).toEqual(['spec']);
    expect(Object.keys(patch.patch['spec'] as object)).toEqual(['ephemeralContainers']);
    return (patch.patch['spec'] as { ephemeralContainers: Container[] }).ephemeralContainers;
  }

  const withoutApiServer = (container: Container | undefined): Container | undefined => {
    if (container === undefined) return undefined;
    const { env: _env, ...rest } = container;
    return rest as Container;
  };

  describe('ephemeral containers (rule 16)', () => {
    it('are not part of S when it is made: its API server takes none', () => {
      expect(superPod(running([debug])).spec).not.toHaveProperty('ephemeralContainers');
    });

    it('go down by their subresource, once', () => {
      const t = running([debug]);
      const s = superPod(t, { spec: { nodeName: 'n1' } });
      const list = sent(actions(t, s));
      expect(list?.map(withoutApiServer)).toEqual([debug]);
      const after = applyMergePatch(s, { spec: { ephemeralContainers: list } }) as Pod;
      expect(sent(actions(t, after))).toBeUndefined();
    });

    it('leave those alone that S has, the ones of the operator among them', () => {
      const t = running([debug, { name: 'second', image: 'busybox:2' }]);
      const present = [
        { name: 'operators-own', image: 'tools:1' },
        { ...debug, image: 'mirror/busybox:1' },
      ];
      const s = superPod(t, { spec: { nodeName: 'n1', ephemeralContainers: present } });
      const list = sent(actions(t, s)) ?? [];
      expect(list.slice(0, 2)).toEqual(present);
      expect(list.slice(2).map(({ name }) => name)).toEqual(['second']);
    });

    it('are translated as the containers are that a pod is made with', () => {
      const volumeMounts = [{ name: 'data', mountPath: '/data' }];
      const container: Container = {
        ...debug,
        volumeMounts,
        env: [
          { name: 'NAMESPACE', valueFrom: { fieldRef: { fieldPath: 'metadata.namespace' } } },
          { name: 'CA', valueFrom: { configMapKeyRef: { name: 'kube-root-ca.crt', key: 'ca.crt' } } },
        ],
        envFrom: [{ configMapRef: { name: 'kube-root-ca.crt' } }],
      };
      const t = running([container]);
      const context = podContext({ tenantObjects: [testService('db')] });
      const [made] = sent(actions(t, superPod(t, { spec: { nodeName: 'n1' } }), context)) ?? [];
      const env = Object.fromEntries((made?.env ?? []).map((variable) => [variable.name, variable]));
      expect(env['NAMESPACE']).toEqual({ name: 'NAMESPACE', value: 'shop' });
      expect(env['CA']?.valueFrom?.configMapKeyRef?.name).toBe('tenant-kube-root-ca.crt');
      expect(env['KUBERNETES_SERVICE_HOST']?.value).toBe('10.112.4.1');
      expect(env['DB_SERVICE_HOST']?.value).toBe('10.112.4.20');
      expect(made?.envFrom).toEqual([{ configMapRef: { name: 'tenant-kube-root-ca.crt' } }]);
      expect(made?.['volumeMounts']).toEqual(volumeMounts);
    });

    it('wait for what they refer to, as far as the tenant has it', () => {
      const settings: KubeObject = {
        apiVersion: 'v1',
        kind: resources.configMaps.kind,
        metadata: { name: 'settings', namespace: 'shop', uid: 'c' },
      };
      const t = running([{ ...debug, envFrom: [{ configMapRef: { name: 'settings' } }] }]);
      const all = actions(
        t,
        superPod(t, { spec: { nodeName: 'n1' } }),
        podContext({ tenantObjects: [settings] }),
      );
      const order = all.map((action) => (action.do === 'patchSuper' ? action.subresource : action.do));
      expect(order.slice(-2)).toEqual(['require', 'ephemeralcontainers']);
      const required = all.find((action) => action.do === 'require');
      expect(required).toEqual({
        do: 'require',
        keys: [{ kind: 'configmaps', namespace: 'shop', name: 'settings' }],
      });
    });

    it('come after what goes up, as the super cluster may refuse them', () => {
      const t = running([debug]);
      const all = actions(t, superPod(t, { spec: { nodeName: 'n1' }, status: { phase: 'Running' } }));
      const last = all.at(-1);
      expect(all.some((action) => action.do === 'patchTenant')).toBe(true);
      expect(last).toMatchObject({ do: 'patchSuper', mayBeRefused: true });
    });

    it('are nothing to a pod that is on its way out', () => {
      const t = running([debug]);
      const deletionTimestamp = '2026-01-01T00:00:30Z';
      const leaving = {
        ...t,
        metadata: { ...t.metadata, deletionTimestamp, deletionGracePeriodSeconds: 30 },
      };
      expect(sent(actions(leaving, superPod(t, { spec: { nodeName: 'n1' } })))).toBeUndefined();
    });
  });

  describe('an ephemeral container that may not run (rules 10, 14)', () => {
    const privileged: Container = { ...debug, name: 'root', securityContext: { privileged: true } };

    it.each([
      ['PodSecurity', privileged, podContext()],
      [
        'NotSupported',
        {
          ...debug,
          name: 'root',
          env: [{ name: 'N', valueFrom: { fieldRef: { fieldPath: 'spec.nodeName' } } }],
        },
        podContext({ tenant: { hideNodes: true } }),
      ],
      [
        'ReservedName',
        { ...debug, name: 'root', envFrom: [{ secretRef: { name: 'skerry-x' } }] },
        podContext(),
      ],
    ])('is told so (%s), and stays behind without the others', (reason, container, context) => {
      const t = running([container, debug]);
      const all = actions(t, superPod(t, { spec: { nodeName: 'n1' } }), context);
      expect(all.filter((action) => action.do === 'notice')).toMatchObject([
        { notice: { type: 'Warning', reason, message: expect.stringContaining('"root"') } },
      ]);
      expect(sent(all)?.map(({ name }) => name)).toEqual(['debugger']);
    });

    it('does not cost its pod the S that it has', () => {
      const { nodeName: _nodeName, ...spec } = running([privileged]).spec ?? {};
      const t = tenantPod({ spec });
      const s = superPod(t);
      expect(podKind.admit?.(t, podContext({ superObjects: [s] }))).toEqual({ wanted: true });
    });

    it('waits in the status with the reason, and the event is not written again', () => {
      const t = running([privileged]);
      const s = superPod(t, { spec: { nodeName: 'n1' }, status: { phase: 'Running' } });
      const status = actions(t, s).find(
        (action) => action.do === 'patchTenant' && action.subresource === 'status',
      );
      if (status?.do !== 'patchTenant') throw new Error('no status');
      const [told] = (status.patch['status'] as { ephemeralContainerStatuses: unknown[] })
        .ephemeralContainerStatuses;
      expect(told).toMatchObject({ name: 'root', state: { waiting: { reason: 'PodSecurity' } } });
      const after = applyMergePatch(t, status.patch) as Pod;
      expect(actions(after, s)).toEqual([]);
    });

    it('may run where the policy lets it', () => {
      const t = running([privileged]);
      const context = podContext({ tenant: { policy: { ...defaultPolicy, podSecurity: 'privileged' } } });
      expect(sent(actions(t, superPod(t, { spec: { nodeName: 'n1' } }), context))).toHaveLength(1);
    });
  });

  describe('observedGeneration (rule 20)', () => {
    const observed = (t: Pod, s: Pod): unknown => {
      const status = actions(t, s).find(
        (action) => action.do === 'patchTenant' && action.subresource === 'status',
      );
      return status?.do === 'patchTenant'
        ? (status.patch['status'] as { observedGeneration?: number }).observedGeneration
        : undefined;
    };
    const seen = { status: { phase: 'Running', observedGeneration: 1 } };

    it("is T's generation once S has the container, or is not to have it", () => {
      const t = running([debug]);
      t.metadata['generation'] = 4;
      const s = superPod(t, { spec: { nodeName: 'n1' }, ...seen });
      expect(observed(t, s)).toBeUndefined();
      const with_ = superPod(t, { spec: { nodeName: 'n1', ephemeralContainers: [debug] }, ...seen });
      expect(observed(t, with_)).toBe(4);
      const refused = running([{ ...debug, securityContext: { privileged: true } }]);
      refused.metadata['generation'] = 5;
      expect(observed(refused, superPod(refused, { spec: { nodeName: 'n1' }, ...seen }))).toBe(5);
    });
  });
});

describe('resize', () => {
  const context = podContext();
  const small = { requests: { cpu: '100m', memory: '64Mi' }, limits: { cpu: '1', 'example.com/gpu': '1' } };
  const large = { requests: { cpu: '200m', memory: '64Mi' }, limits: { cpu: '1', 'example.com/gpu': '1' } };

  function pod(spec: PodSpec): Pod {
    return tenantPod({ spec });
  }

  function sized(resources: Container['resources'], more: Partial<Container> = {}): PodSpec {
    return { containers: [{ name: 'main', image: 'nginx:1', ...(resources && { resources }), ...more }] };
  }

  function actions(t: Pod, s: Pod): Action[] {
    const all = [...podKind.down(t, s, context), ...(podKind.up?.(t, s, context) ?? [])];
    return all.filter((action) => action.do === 'patchSuper');
  }

  /** S after what its API server makes of the patches; a resize changes nothing but sizes there. */
  function carriedOut(s: Pod, all: readonly Action[]): Pod {
    return all.reduce((pod, action) => {
      return action.do === 'patchSuper' ? (applyMergePatch(pod, action.patch) as Pod) : pod;
    }, s);
  }

  describe('in-place resize (rule 16)', () => {
    it('goes down by its subresource, injected containers as they are, and is remembered', () => {
      const injected = { name: 'sidecar', image: 'proxy:1', resources: { requests: { cpu: '5m' } } };
      const s = superPod(pod(sized(small)), {
        spec: { containers: [injected, ...(superPod(pod(sized(small))).spec?.containers ?? [])] },
      });
      const t = pod(sized(large));
      const all = actions(t, s);
      expect(all).toMatchObject([
        {
          subresource: 'resize',
          mayBeRefused: true,
          patch: { spec: { containers: [injected, { resources: large }] } },
        },
        { patch: { metadata: { annotations: { [resourcesMark]: expect.any(String) } } } },
      ]);
      expect(Object.keys((all[1] as { patch: object }).patch)).toEqual(['metadata']);
      expect(actions(t, carriedOut(s, all))).toEqual([]);
    });

    it('is nothing while T is as S was made, whatever the super cluster has made of S', () => {
      const t = pod(sized(small));
      const overcommitted = { requests: { cpu: '10m', memory: '64Mi' }, limits: { cpu: '1', memory: '1Gi' } };
      const s = superPod(t, { spec: sized(overcommitted) });
      expect(actions(t, s)).toEqual([]);
    });

    it('is nothing while S has the sizes of T, whoever has made it, and remembers nothing', () => {
      const t = pod(sized(small));
      const s = applyMergePatch(superPod(t), { metadata: { annotations: { [resourcesMark]: null } } }) as Pod;
      expect(actions(t, s)).toEqual([]);
    });

    it('does not fight over a resize that the super cluster has made something else of', () => {
      const s = superPod(pod(sized(small)));
      const t = pod(sized(large));
      const after = carriedOut(s, actions(t, s));
      const scaled = applyMergePatch(after, { spec: sized({ requests: { cpu: '7' } }) }) as Pod;
      expect(actions(t, scaled)).toEqual([]);
      const again = pod(sized({ ...large, requests: { cpu: '300m', memory: '64Mi' } }));
      expect(actions(again, scaled)[0]).toMatchObject({ subresource: 'resize' });
    });

    it('takes nothing away that only S has', () => {
      const limited = { requests: { cpu: '100m' }, limits: { cpu: '500m', memory: '1Gi' } };
      const s = superPod(pod(sized({ requests: { cpu: '100m' } })), { spec: sized(limited) });
      const [resize] = actions(pod(sized({ requests: { cpu: '200m' } })), s);
      expect(resize).toMatchObject({
        patch: {
          spec: {
            containers: [
              { resources: { requests: { cpu: '200m' }, limits: { cpu: '500m', memory: '1Gi' } } },
            ],
          },
        },
      });
    });

    it('reaches sidecars, resize policies and the resources of the pod', () => {
      const spec = (cpu: string, restartPolicy: string): PodSpec => ({
        ...sized(small, { resizePolicy: [{ resourceName: 'cpu', restartPolicy }] }),
        initContainers: [
          { name: 'log', image: 'log:1', restartPolicy: 'Always', resources: { requests: { cpu } } },
        ],
        resources: { requests: { cpu } },
      });
      const s = superPod(pod(spec('1', 'NotRequired')));
      const t = pod(spec('2', 'RestartContainer'));
      const all = actions(t, s);
      expect(all[0]).toMatchObject({
        patch: {
          spec: {
            containers: [{ resizePolicy: [{ resourceName: 'cpu', restartPolicy: 'RestartContainer' }] }],
            initContainers: [{ name: 'log', restartPolicy: 'Always', resources: { requests: { cpu: '2' } } }],
            resources: { requests: { cpu: '2' } },
          },
        },
      });
      expect(actions(t, carriedOut(s, all))).toEqual([]);
    });

    it('is not mixed with an image that changes at the same time', () => {
      const s = superPod(pod(sized(small)));
      const t = pod(sized(large, { image: 'nginx:2' }));
      const [update, resize] = actions(t, s);
      expect(update).toMatchObject({
        patch: { spec: { containers: [{ image: 'nginx:2', resources: small }] } },
      });
      expect(resize).toMatchObject({ subresource: 'resize' });
    });

    it('leaves pods without a size without a mark', () => {
      const t = pod(sized({}));
      expect(superPod(t).metadata.annotations).not.toHaveProperty(resourcesMark);
      expect(actions(t, superPod(t))).toEqual([]);
    });
  });

  describe('the status of a resize (rules 16, 20)', () => {
    const condition = {
      type: 'PodResizePending',
      status: 'True',
      reason: 'Deferred',
      observedGeneration: 2,
    } as const;
    const status = {
      phase: 'Running',
      observedGeneration: 2,
      resize: 'Deferred',
      conditions: [condition],
      resources: { requests: { cpu: '100m' } },
      allocatedResources: { cpu: '100m' },
      containerStatuses: [
        { name: 'main', ready: true, allocatedResources: { cpu: '100m' }, resources: small },
      ],
    };
    const patchOf = (t: Pod, s: Pod): Record<string, unknown> | undefined => {
      const action = podKind.up?.(t, s, context).find((found) => found.do === 'patchTenant');
      return action?.do === 'patchTenant' ? (action.patch['status'] as Record<string, unknown>) : undefined;
    };

    it("comes up whole, with T's generation once S has T's sizes", () => {
      const t = pod(sized(large));
      t.metadata['generation'] = 7;
      const before = superPod(pod(sized(small)), { metadata: { generation: 2 }, status });
      expect(patchOf(t, before)).not.toHaveProperty('observedGeneration');
      const s = carriedOut(before, actions(t, before));
      const patch = patchOf(t, s);
      expect(patch).toMatchObject({
        resize: 'Deferred',
        resources: status.resources,
        allocatedResources: status.allocatedResources,
        containerStatuses: status.containerStatuses,
        observedGeneration: 7,
        conditions: [{ ...condition, observedGeneration: 7 }],
      });
      expect(patchOf(applyMergePatch(t, { status: patch }) as Pod, s)).toBeUndefined();
    });

    it('goes when kubelet takes it back', () => {
      const t = applyMergePatch(pod(sized(small)), { status }) as Pod;
      const { conditions: _conditions, resize: _resize, ...settled } = status;
      const patch = patchOf(t, superPod(pod(sized(small)), { metadata: { generation: 2 }, status: settled }));
      expect(patch).toMatchObject({ conditions: [], resize: null });
    });
  });
});
