import { describe, expect, it } from 'vitest';
import { defaultPolicy } from '../../../api/default-policy.ts';
import { applyMergePatch, type KubeObject, resources } from '../../../kube/index.ts';
import type { SyncContext } from '../../context.ts';
import type { Action } from '../contract.ts';
import { podKind } from './pods.ts';
import { podContext, superPod, tenantPod, testService } from './testing.ts';
import type { Container, Pod } from './types.ts';
import { specPatch } from './updates.ts';

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

  describe('ephemeral containers (sync rule `pod-subresources`)', () => {
    it('are not part of the super object when it is made: its API server takes none', () => {
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

    it('leave those alone that the super object has, the ones of the operator among them', () => {
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
      expect(order.slice(-3)).toEqual(['require', 'ephemeralcontainers', undefined]);
      // So that those which the super cluster's people add are not taken for the tenant's.
      expect(all.at(-1)).toMatchObject({
        patch: { metadata: { annotations: { 'skerry.dev/containers': 'main,debugger' } } },
      });
      const required = all.find((action) => action.do === 'require');
      expect(required).toEqual({
        do: 'require',
        keys: [{ kind: 'configmaps', namespace: 'shop', name: 'settings' }],
      });
    });

    it('come after what goes up, as the super cluster may refuse them', () => {
      const t = running([debug]);
      const all = actions(t, superPod(t, { spec: { nodeName: 'n1' }, status: { phase: 'Running' } }));
      const after = all.slice(all.findLastIndex((action) => action.do === 'patchTenant') + 1);
      expect(all.some((action) => action.do === 'patchTenant')).toBe(true);
      expect(after).toMatchObject([
        { subresource: 'ephemeralcontainers', mayBeRefused: true },
        { patch: {} },
      ]);
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

  describe('an ephemeral container that may not run (sync rules `downward-api`, `pod-security`)', () => {
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

    it('does not cost its pod the super object that it has', () => {
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

    describe('as its variables would be too many', () => {
      const ports = Array.from({ length: 200 }, (_, at) => ({ name: `p${at}`, port: at + 1 }));
      const services = ['a', 'b'].map((name) => testService(name, { ports }));
      const data = Object.fromEntries(Array.from({ length: 1_000 }, (_, at) => [`k${at}`, '']));
      const settings: KubeObject = {
        apiVersion: 'v1',
        kind: 'ConfigMap',
        metadata: { name: 'settings', namespace: 'shop', uid: 'c' },
        data,
      };
      const envFrom = Array.from({ length: 101 }, (_, at) => ({
        prefix: `p${at}`,
        configMapRef: { name: 'settings' },
      }));
      const many = (count: number): Container[] =>
        Array.from({ length: count }, (_, at) => ({ name: `d${at}`, image: 'busybox:1' }));
      const running_ = { nodeName: 'n1' };

      it('is refused with all that came with it, before any are made, and shown so once', () => {
        const context = podContext({ tenantObjects: services });
        const t = running(many(400));
        const s = superPod(t, { spec: running_, status: { phase: 'Running' } });
        const all = actions(t, s, context);
        expect(sent(all)).toBeUndefined();
        const notices = all.filter((action) => action.do === 'notice');
        expect(notices).toHaveLength(400);
        expect(notices[7]).toMatchObject({
          notice: {
            reason: 'TooManyServiceVariables',
            message: expect.stringMatching(
              /"d7" does not run: the variables of the Services .* 401 containers/,
            ),
          },
        });
        const status = all.find((action) => action.do === 'patchTenant');
        if (status?.do !== 'patchTenant') throw new Error('no status');
        expect(status.patch['status']).toMatchObject({
          ephemeralContainerStatuses: { length: 400, 0: { name: 'd0', state: { waiting: {} } } },
        });
        expect(actions(applyMergePatch(t, status.patch) as Pod, s, context)).toEqual([]);
        const few = sent(actions(running(many(2)), s, context));
        expect(few?.map(({ env }) => env?.length)).toEqual([2_014, 2_014]);
        expect(sent(actions(running(many(400), { enableServiceLinks: false }), s, context))).toHaveLength(
          400,
        );
      });

      it('is refused for those that the super object has already', () => {
        const context = podContext({ tenantObjects: services });
        const t = running(many(11));
        const with_ = (count: number): Pod =>
          superPod(t, { spec: { ...running_, ephemeralContainers: many(count) } });
        expect(sent(actions(t, with_(10), context))).toBeUndefined();
        expect(sent(actions(running(many(10)), with_(9), context))).toHaveLength(10);
      });

      it('is refused for the names that it takes from ConfigMaps and Secrets', () => {
        const context = podContext({ tenantObjects: [settings] });
        const t = running([{ ...debug, envFrom }]);
        const s = superPod(t, { spec: running_ });
        const all = actions(t, s, context);
        expect(sent(all)).toBeUndefined();
        expect(all.filter((action) => action.do === 'notice')).toMatchObject([
          { notice: { reason: 'TooManyServiceVariables', message: expect.stringContaining('envFrom') } },
        ]);
        const fewer = running([{ ...debug, envFrom: envFrom.slice(1) }]);
        expect(sent(actions(fewer, s, context))).toHaveLength(1);
      });
    });

    it('that the super object has is not said to be refused, whatever the policy has become', () => {
      const t = running([privileged]);
      const s = superPod(t, {
        spec: { nodeName: 'n1', ephemeralContainers: [privileged] },
        status: { phase: 'Running', ephemeralContainerStatuses: [{ name: 'root', ready: true }] },
      });
      const all = actions(t, s);
      expect(all.filter((action) => action.do === 'notice')).toEqual([]);
      expect(all.find((action) => action.do === 'patchTenant')).toMatchObject({
        patch: { status: { ephemeralContainerStatuses: { length: 1, 0: { ready: true } } } },
      });
    });

    it('may run where the policy lets it', () => {
      const t = running([privileged]);
      const context = podContext({ tenant: { policy: { ...defaultPolicy, podSecurity: 'privileged' } } });
      expect(sent(actions(t, superPod(t, { spec: { nodeName: 'n1' } }), context))).toHaveLength(1);
    });
  });

  describe('observedGeneration (sync rule `pod-status`)', () => {
    const observed = (t: Pod, s: Pod): unknown => {
      const status = actions(t, s).find(
        (action) => action.do === 'patchTenant' && action.subresource === 'status',
      );
      return status?.do === 'patchTenant'
        ? (status.patch['status'] as { observedGeneration?: number }).observedGeneration
        : undefined;
    };
    const seen = { status: { phase: 'Running', observedGeneration: 1 } };

    it("is the tenant object's generation once the super object has the container, or is not to have it", () => {
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

it('thousands of tolerations of one key are compared without a look at each for each', () => {
  const count = 2_000;
  let looks = 0;
  const tolerations = Array.from({ length: count }, (_, index) => ({
    get key() {
      looks += 1;
      return 'node.kubernetes.io/not-ready';
    },
    operator: 'Equal',
    value: `v${index}`,
  }));
  const t: Pod = { ...tenantPod(), spec: { ...tenantPod().spec, tolerations } };
  const s = superPod(tenantPod());
  const present = s.spec?.tolerations?.length ?? 0;
  const patch = specPatch(t, s, defaultPolicy);
  expect(patch).toMatchObject({ spec: { tolerations: { length: count + present } } });
  expect(looks).toBeLessThan(20 * count);
});
