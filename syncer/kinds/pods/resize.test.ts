import { describe, expect, it } from 'vitest';
import { applyMergePatch } from '../../../kube/index.ts';
import type { Action } from '../contract.ts';
import { podKind } from './pods.ts';
import { resourcesAnnotation } from './resize.ts';
import { podContext, superPod, tenantPod } from './testing.ts';
import type { Container, Pod, PodSpec } from './types.ts';

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

  /** The super object after what its API server makes of the patches; a resize changes nothing but sizes there. */
  function carriedOut(s: Pod, all: readonly Action[]): Pod {
    return all.reduce((pod, action) => {
      return action.do === 'patchSuper' ? (applyMergePatch(pod, action.patch) as Pod) : pod;
    }, s);
  }

  describe('in-place resize (sync rule `pod-subresources`)', () => {
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
        { patch: { metadata: { annotations: { [resourcesAnnotation]: expect.any(String) } } } },
      ]);
      expect(Object.keys((all[1] as { patch: object }).patch)).toEqual(['metadata']);
      expect(actions(t, carriedOut(s, all))).toEqual([]);
    });

    it('is nothing while the tenant object is as the super object was made, whatever the super cluster has made of the super object', () => {
      const t = pod(sized(small));
      const overcommitted = { requests: { cpu: '10m', memory: '64Mi' }, limits: { cpu: '1', memory: '1Gi' } };
      const s = superPod(t, { spec: sized(overcommitted) });
      expect(actions(t, s)).toEqual([]);
    });

    it('is nothing while the super object has the sizes of the tenant object, whoever has made it, and remembers nothing', () => {
      const t = pod(sized(small));
      const s = applyMergePatch(superPod(t), {
        metadata: { annotations: { [resourcesAnnotation]: null } },
      }) as Pod;
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

    it('takes nothing away that only the super object has', () => {
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
      expect(superPod(t).metadata.annotations).not.toHaveProperty(resourcesAnnotation);
      expect(actions(t, superPod(t))).toEqual([]);
    });
  });

  describe('the status of a resize (sync rules `pod-subresources`, `pod-status`)', () => {
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

    it("comes up whole, with the tenant object's generation once the super object has the tenant object's sizes", () => {
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
