import { describe, expect, it } from 'vitest';
import { defaultPolicy } from '../../../api/default-policy.ts';
import { annotationKeys } from '../../../api/labels.ts';
import { applyMergePatch, type KubeObject } from '../../../kube/index.ts';
import { lateName } from '../late-references.ts';
import { carryOut } from '../testing.ts';
import { podKind } from './pods.ts';
import { clusterDns, podContext, superPod, tenantPod, testService } from './testing.ts';
import type { Pod } from './types.ts';

const context = podContext();

function settle(t: Pod, s: Pod, over = context): Pod {
  const after = carryOut({ tenantObject: t, superObject: s }, podKind.down(t, s, over)).superObject as Pod;
  expect(podKind.down(t, after, over)).toEqual([]);
  return after;
}

function tolerating(...tolerations: string[]) {
  return podContext({ tenant: { policy: { ...defaultPolicy, tolerations } } });
}

function changed(pod: Pod, patch: unknown): Pod {
  return applyMergePatch(pod, patch) as Pod;
}

describe('updates of a pod (sync rule `pod-updates`)', () => {
  it('are none while both objects are as they were made, whatever server and webhooks have put into the super object', () => {
    const t = tenantPod({ metadata: { labels: { app: 'web' }, annotations: { note: 'x' } } });
    const s = superPod(t, {
      metadata: { labels: { injected: 'yes' }, annotations: { 'sidecar.example/status': '{}' } },
      spec: {
        nodeName: 'n1',
        priority: 100,
        nodeSelector: { pool: 'tenants' },
        imagePullSecrets: [{ name: 'operator' }],
        containers: [...(t.spec?.containers ?? []), { name: 'sidecar', image: 'proxy:1' }],
        tolerations: [...(t.spec?.tolerations ?? []), { key: 'pool', operator: 'Exists' }],
        activeDeadlineSeconds: 3600,
      },
    });
    expect(podKind.down(t, s, context)).toEqual([]);
  });

  it('carry labels and annotations', () => {
    const t = tenantPod({ metadata: { labels: { app: 'web', old: '1' } } });
    const s = settle(
      changed(t, { metadata: { labels: { app: 'api', old: null }, annotations: { a: 'b' } } }),
      superPod(t),
    );
    expect(s.metadata.labels).toMatchObject({ app: 'api' });
    expect(s.metadata.labels).not.toHaveProperty('old');
    expect(s.metadata.annotations).toMatchObject({ a: 'b' });
  });

  it('leave the labels alone that each API server takes from its own node at binding', () => {
    const zone = 'topology.kubernetes.io/zone';
    const t = tenantPod();
    const s = superPod(t, { spec: { nodeName: 'n1' }, metadata: { labels: { [zone]: 'real' } } });
    expect(podKind.down(changed(t, { metadata: { labels: { [zone]: 'shown' } } }), s, context)).toEqual([]);
  });

  it('carry a grace period where one may be changed: from a negative one to 1', () => {
    const negative = tenantPod({ spec: { terminationGracePeriodSeconds: -5 } });
    const corrected = changed(negative, { spec: { terminationGracePeriodSeconds: 1 } });
    expect(settle(corrected, superPod(negative)).spec?.terminationGracePeriodSeconds).toBe(1);
    const other = changed(superPod(tenantPod()), { spec: { terminationGracePeriodSeconds: 60 } });
    expect(
      podKind.down(changed(tenantPod(), { spec: { terminationGracePeriodSeconds: 1 } }), other, context),
    ).toEqual([]);
  });

  it('carry images by name, and leave injected containers where they are', () => {
    const t = tenantPod({ spec: { initContainers: [{ name: 'init', image: 'busybox:1' }] } });
    const injected = { name: 'sidecar', image: 'proxy:1' };
    const made = superPod(t);
    const s = changed(made, { spec: { containers: [injected, ...(made.spec?.containers ?? [])] } });
    const wanted = changed(t, {
      spec: {
        containers: [{ name: 'main', image: 'nginx:2' }],
        initContainers: [{ name: 'init', image: 'busybox:2' }],
      },
    });
    const after = settle(wanted, s);
    const [main] = made.spec?.containers ?? [];
    expect(after.spec?.containers).toEqual([injected, { ...main, image: 'nginx:2' }]);
    expect(after.spec?.initContainers).toMatchObject([{ name: 'init', image: 'busybox:2' }]);
  });

  it('carry a new image and the mark of its repository in one patch', () => {
    const t = tenantPod({ metadata: { labels: { app: 'web' } } });
    const wanted = changed(t, {
      metadata: { labels: { app: 'shop' } },
      spec: { containers: [{ name: 'main', image: 'other.example/nginx:2' }] },
    });
    const images = '["other.example/nginx"]';
    const made = superPod(t);
    const { [annotationKeys.images]: _, ...annotations } = made.metadata.annotations ?? {};
    const old = { ...made, metadata: { ...made.metadata, annotations } };
    for (const s of [made, old]) {
      expect(podKind.down(wanted, s, context)).toMatchObject([
        {
          do: 'patchSuper',
          patch: {
            metadata: { labels: { app: 'shop' }, annotations: { [annotationKeys.images]: images } },
            spec: { containers: [{ image: 'other.example/nginx:2' }] },
          },
        },
      ]);
      expect(settle(wanted, s).metadata.annotations?.[annotationKeys.images]).toBe(images);
    }
  });

  it('leave a pod alone that has no such mark, as a version before it has made it', () => {
    const t = tenantPod();
    const made = superPod(t);
    const { [annotationKeys.images]: _, ...annotations } = made.metadata.annotations ?? {};
    const old = { ...made, metadata: { ...made.metadata, annotations } };
    expect(podKind.down(t, old, context)).toEqual([]);
    const later = changed(t, { spec: { activeDeadlineSeconds: 60 } });
    expect(settle(later, old).metadata.annotations).toEqual(annotations);
  });

  it('bring no mark of images up, and take none from the tenant object', () => {
    const t = tenantPod({ metadata: { annotations: { [annotationKeys.images]: '["good.example/a"]' } } });
    const open = podContext({ tenant: { allowedAnnotations: ['skerry.dev/'] } });
    const s = superPod(t, {}, open);
    expect(podKind.down(t, s, open)).toEqual([]);
    const transparent = podContext({ tenant: { transparentKeyPrefixes: ['skerry.dev/'] } });
    expect(podKind.up?.(tenantPod(), s, transparent)).toEqual([]);
    expect(podKind.down(t, superPod(tenantPod(), {}, transparent), transparent)).toEqual([]);
  });

  it('put an image back that somebody changed in the super cluster', () => {
    const t = tenantPod();
    const s = changed(superPod(t), { spec: { containers: [{ name: 'main', image: 'other:1' }] } });
    expect(settle(t, s).spec?.containers?.[0]?.image).toBe('nginx:1');
  });

  it('carry a deadline that comes nearer, the only one that can change', () => {
    const t = tenantPod({ spec: { activeDeadlineSeconds: 60 } });
    expect(settle(t, superPod(tenantPod())).spec?.activeDeadlineSeconds).toBe(60);
    expect(settle(t, superPod(t, { spec: { activeDeadlineSeconds: 90 } })).spec?.activeDeadlineSeconds).toBe(
      60,
    );
    expect(settle(t, superPod(t, { spec: { activeDeadlineSeconds: 30 } })).spec?.activeDeadlineSeconds).toBe(
      30,
    );
  });

  it('carry added tolerations, and for how long, behind those that the super object has', () => {
    const t = tenantPod();
    const s = superPod(t);
    const own = t.spec?.tolerations ?? [];
    const gpu = { key: 'gpu', operator: 'Exists' };
    const longer = { ...own[0], tolerationSeconds: 600 };
    const wanted = changed(t, { spec: { tolerations: [longer, own[1], gpu] } });
    expect(settle(wanted, s, tolerating('gpu')).spec?.tolerations).toEqual([longer, own[1], gpu]);
    expect(settle(wanted, s).spec?.tolerations).toEqual([longer, own[1]]);
  });

  it('settle on one time for a taint that the tenant object tolerates twice', () => {
    const short = { key: 'pool', operator: 'Exists', tolerationSeconds: 10 };
    const t = tenantPod({ spec: { tolerations: [short, { ...short, tolerationSeconds: 20 }] } });
    const over = tolerating('pool');
    settle(t, superPod(t, {}, over), over);
  });

  it('carry no toleration that would open control-plane nodes to a pod without a node', () => {
    const t = tenantPod({ spec: { tolerations: [] } });
    const everything = { operator: 'Exists' };
    const wanted = changed(t, {
      spec: {
        tolerations: [everything, { key: 'node-role.kubernetes.io/control-plane', operator: 'Exists' }],
      },
    });
    const any = tolerating('*');
    const bound = { spec: { nodeName: 'n1' } };
    expect(settle(wanted, superPod(t, {}, any), any).spec?.tolerations).toEqual([]);
    expect(settle(wanted, superPod(t, bound, any), any).spec?.tolerations).toEqual([everything]);
    expect(settle(wanted, superPod(t, bound)).spec?.tolerations).toEqual([]);
    const guarded = tenantPod({ spec: { tolerations: [{ operator: 'Exists', effect: 'NoExecute' }] } });
    expect(settle(wanted, superPod(guarded, {}, any), any).spec?.tolerations).toHaveLength(2);
  });

  it('carry no image from a registry that the policy does not allow, and say so (sync rule `pod-images`)', () => {
    const over = podContext({ tenant: { policy: { ...defaultPolicy, imageRegistries: ['good.example'] } } });
    const t = tenantPod({ spec: { containers: [{ name: 'main', image: 'good.example/web:1' }] } });
    const s = superPod(t, {}, over);
    const updated = (image: string) => changed(t, { spec: { containers: [{ name: 'main', image }] } });
    expect(settle(updated('good.example/web:2'), s, over).spec?.containers?.[0]?.image).toBe(
      'good.example/web:2',
    );
    expect(podKind.down(updated('good.example.evil.example/web:2'), s, over)).toEqual([
      {
        do: 'notice',
        notice: {
          type: 'Warning',
          reason: 'NotSupported',
          message: expect.stringMatching(/container main.*evil.*policy: imageRegistries.*keeps/),
        },
      },
    ]);
  });

  it('stop at the spec once the tenant object is being deleted', () => {
    const t = tenantPod();
    const wanted = changed(t, {
      metadata: { deletionTimestamp: '2026-01-01T00:00:30Z', labels: { app: 'x' } },
      spec: { containers: [{ name: 'main', image: 'nginx:2' }] },
    });
    const s = settle(wanted, superPod(t));
    expect(s.spec?.containers?.[0]?.image).toBe('nginx:1');
    expect(s.metadata.labels).toMatchObject({ app: 'x' });
  });

  it('are none when the Services and the DNS that the super object was made with are others by now', () => {
    const t = tenantPod({
      spec: { subdomain: 'db', setHostnameAsFQDN: true, dnsConfig: { searches: ['example.org'] } },
    });
    const before = podContext({ tenantObjects: [testService('old'), clusterDns] });
    const after = podContext({ tenantObjects: [testService('new')] });
    const made = podKind.toSuper(t, before) as Pod;
    expect(podKind.toSuper(t, after)).not.toEqual(made);
    expect(podKind.down(t, superPod(t, {}, before), after)).toEqual([]);
  });

  it('work on what the cache keeps of the super object', () => {
    const t = tenantPod({ spec: { volumes: [{ name: 'v', emptyDir: {} }] } });
    const cached = podKind.compact?.super?.(superPod(t)) as Pod;
    expect(cached.spec).not.toHaveProperty('volumes');
    expect(Object.keys(cached)).toEqual(Object.keys(superPod(t)));
    expect(podKind.down(t, cached, context)).toEqual([]);
    expect(podKind.up?.(t, cached, context)).toEqual([]);
  });
});

describe('late references (sync rule `late-references`)', () => {
  const late = (s: KubeObject) => podKind.indexes?.super?.['byLateReference']?.(s);

  it('are known of a pod of which the cache keeps no volumes', () => {
    const s = superPod(tenantPod({ spec: { volumes: [{ name: 'v', secret: { secretName: 'own' } }] } }));
    const cached = podKind.compact?.super?.(s) as Pod;
    expect(late(s)).toEqual([`secrets/${s.metadata.namespace}/${lateName('own')}`]);
    expect(late(cached)).toEqual(late(s));
    expect(late({ ...cached, metadata: { ...cached.metadata, labels: {} } })).toEqual(late(s));
  });
});

describe('readiness gates (sync rule `readiness-gates`)', () => {
  const gate = 'example.com/loaded';
  const t = tenantPod({ spec: { readinessGates: [{ conditionType: gate }] } });
  const ready = { type: 'Ready', status: 'False' } as const;
  const loaded = { type: gate, status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z' } as const;

  it("are set in the super object from the tenant object's conditions, and nothing else is", () => {
    const s = superPod(t, { status: { conditions: [ready] } });
    const wanted = changed(t, {
      status: {
        conditions: [
          { type: 'Other', status: 'True' },
          { ...loaded, observedGeneration: 3 },
        ],
      },
    });
    expect(podKind.down(wanted, s, context)).toEqual([
      { do: 'patchSuper', patch: { status: { conditions: [ready, loaded] } }, subresource: 'status' },
    ]);
    settle(wanted, s);
  });

  it('go from the super object when the tenant object loses the condition', () => {
    const s = superPod(t, { status: { conditions: [ready, loaded] } });
    expect(settle(t, s).status?.conditions).toEqual([ready]);
  });

  it('come after a change of the pod itself, whose version both would claim', () => {
    const s = superPod(t, { status: { conditions: [ready] } }) as KubeObject;
    const wanted = changed(t, { metadata: { labels: { a: 'b' } }, status: { conditions: [loaded] } });
    expect(podKind.down(wanted, s, context)).toHaveLength(1);
  });
});
