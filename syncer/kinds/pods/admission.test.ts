import { describe, expect, it } from 'vitest';
import { defaultPolicy } from '../../../api/default-policy.ts';
import { annotationKeys, labelKeys } from '../../../api/labels.ts';
import type { TenantPolicy } from '../../../api/policy.ts';
import type { KubeObject } from '../../../kube/index.ts';
import type { SyncContext } from '../../context.ts';
import { shownNodeName } from '../../mapping/node-names.ts';
import { podKind } from './pods.ts';
import { type PodParts, podContext, superPod, superUid, tenantPod, testService } from './testing.ts';
import type { NodeSelectorTerm, Pod, PodSpec } from './types.ts';

describe('admission', () => {
  const context = podContext();

  function admission(parts: PodParts, over = context) {
    return podKind.admit?.(tenantPod(parts), over);
  }

  function reason(parts: PodParts, over = context): string | undefined {
    const answer = admission(parts, over);
    expect(answer?.wanted).toBe(answer?.notice === undefined);
    return answer?.notice?.reason;
  }

  function withPolicy(policy: Partial<TenantPolicy>) {
    return podContext({ tenant: { policy: { ...defaultPolicy, ...policy } } });
  }

  const podOfDaemonSet = {
    ownerReferences: [{ apiVersion: 'apps/v1', kind: 'DaemonSet', name: 'd', uid: 'd', controller: true }],
  };

  describe('which pods go down', () => {
    it('takes an ordinary pod', () => {
      expect(admission({})).toEqual({ wanted: true });
    });

    it('refuses a pod whose containers would get megabytes of service variables, before they are made', () => {
      const ports = Array.from({ length: 1_000 }, (_, at) => ({ name: `p${at}`, port: at + 1 }));
      const services = ['a', 'b', 'c'].map((name) => testService(name, { clusterIP: '10.112.4.20', ports }));
      const containers = Array.from({ length: 20 }, (_, at) => ({ name: `c${at}` }));
      const over = podContext({ tenantObjects: services });
      expect(admission({ spec: { containers } }, over)).toMatchObject({
        wanted: false,
        keep: true,
        notice: { reason: 'TooManyServiceVariables', message: expect.stringContaining('enableServiceLinks') },
      });
      expect(admission({ spec: { containers: containers.slice(0, 1) } }, over)).toEqual({ wanted: true });
      expect(admission({ spec: { containers, enableServiceLinks: false } }, over)).toEqual({ wanted: true });
    });

    it('refuses a pod that takes a hundred thousand names from ConfigMaps and Secrets, before they are put together', () => {
      const data = Object.fromEntries(Array.from({ length: 1_000 }, (_, at) => [`k${at}`, '']));
      const settings = {
        apiVersion: 'v1',
        kind: 'ConfigMap',
        metadata: { name: 'settings', namespace: 'shop' },
        data,
      };
      const over = podContext({ tenantObjects: [settings] });
      let reads = 0;
      const counting: SyncContext = {
        ...over,
        dataKeysOf: (...of) => {
          reads += 1;
          return over.dataKeysOf(...of);
        },
      };
      const taking = (count: number): PodSpec => {
        const envFrom = Array.from({ length: count }, (_, at) => ({
          prefix: `p${at}`,
          configMapRef: { name: 'settings' },
        }));
        const half = Math.floor(count / 2);
        return {
          containers: [{ name: 'main', envFrom: envFrom.slice(half) }],
          initContainers: [{ name: 'first', envFrom: envFrom.slice(0, half) }],
        };
      };
      expect(admission({ spec: taking(101) }, counting)).toMatchObject({
        wanted: false,
        keep: true,
        notice: { reason: 'TooManyServiceVariables', message: expect.stringContaining('envFrom') },
      });
      expect(reads).toBe(1);
      expect(admission({ spec: taking(100) }, over)).toEqual({ wanted: true });
    });

    it('has no super object for a pod that presets its nodeName, and says so (sync rule `pod-creation`)', () => {
      expect(reason({ spec: { nodeName: 'n1' } })).toBe('NotSupported');
    });

    it('keeps the super object of a pod that we have bound', () => {
      const t = tenantPod({
        spec: { nodeName: 'n1' },
        metadata: { annotations: { [annotationKeys.superUid]: superUid } },
      });
      expect(podKind.admit?.(t, context)).toEqual({ wanted: true });
      const s = superPod(t, { spec: { nodeName: 'n1' } });
      expect(podKind.admit?.(t, podContext({ superObjects: [s] }))).toEqual({ wanted: true });
    });

    it('keeps it too when somebody replaced the annotations of the tenant object and our mark with them', () => {
      const t = tenantPod({ spec: { nodeName: 'n1' } });
      const s = superPod(t, { spec: { nodeName: 'n1' } });
      expect(podKind.admit?.(t, podContext({ superObjects: [s] }))).toEqual({ wanted: true });
    });

    it('keeps it when the super cluster has forgotten that the super object has a node', () => {
      const t = tenantPod({
        spec: { nodeName: 'n1' },
        metadata: { annotations: { [annotationKeys.superUid]: superUid } },
      });
      expect(podKind.admit?.(t, podContext({ superObjects: [superPod(t)] }))).toEqual({ wanted: true });
    });

    it('does not keep it for a pod that the tenant bound elsewhere with a forged mark', () => {
      const t = tenantPod({
        spec: { nodeName: 'n2' },
        metadata: { annotations: { [annotationKeys.superUid]: 'forged' } },
      });
      const s = superPod(t, { spec: { nodeName: 'n1' } });
      expect(podKind.admit?.(t, podContext({ superObjects: [s] }))?.wanted).toBe(false);
    });

    it('waits without a word while a pod has scheduling gates (sync rule `pod-subresources`)', () => {
      expect(admission({ spec: { schedulingGates: [{ name: 'example.com/gate' }] } })).toEqual({
        wanted: false,
      });
    });

    it('refuses what would leave the tenant by a name that is not its own (sync rules `pod-security`, `pod-classes`)', () => {
      expect(reason({ spec: { runtimeClassName: 'kata' } })).toBe('NotSupported');
      expect(reason({ spec: { schedulerName: 'mine' } })).toBe('NotSupported');
      expect(reason({ spec: { resourceClaims: [{ name: 'gpu' }] } })).toBe('NotSupported');
      expect(reason({ metadata: { namespace: 'kube-node-lease' } })).toBe('NotSupported');
    });

    it('refuses a pod that asks for more than 32 different tokens, and says so (sync rule `pod-tokens`)', () => {
      const asking = (count: number): { spec: PodSpec } => {
        const sources = Array.from({ length: count }, (_, index) => ({
          serviceAccountToken: { path: `t${index}`, audience: `a${index}` },
        }));
        return { spec: { volumes: [{ name: 'v', projected: { sources } }] } };
      };
      expect(admission(asking(32))).toEqual({ wanted: true });
      expect(reason(asking(33))).toBe('NotSupported');
      expect(admission(asking(33))?.notice?.message).toContain(
        'more than 32 different service account tokens',
      );
    });

    it.each(['clusterTrustBundle', 'podCertificate'])(
      'refuses the projection %s at every level (sync rule `pod-volumes`)',
      (source) => {
        const spec = { volumes: [{ name: 'v', projected: { sources: [{ [source]: {} }] } }] };
        expect(reason({ spec })).toBe('NotSupported');
        const volumeTypes = [source, 'projected'];
        expect(reason({ spec }, withPolicy({ podSecurity: 'privileged', volumeTypes }))).toBe('NotSupported');
      },
    );

    it.each([
      'configMap',
      'secret',
      'projected',
      'downwardAPI',
      'emptyDir',
      'persistentVolumeClaim',
      'ephemeral',
    ])('takes volumes of type %s (sync rule `pod-volumes`)', (source) => {
      expect(admission({ spec: { volumes: [{ name: 'v', [source]: {} }] } })).toEqual({ wanted: true });
    });

    it.each(['hostPath', 'nfs', 'iscsi', 'csi', 'gitRepo', 'image', 'something-of-tomorrow'])(
      'takes volumes of type %s by policy only, whatever the Pod Security level (sync rule `pod-volumes`)',
      (source) => {
        const spec = { volumes: [{ name: 'v', [source]: {} }] };
        const privileged = withPolicy({ podSecurity: 'privileged' });
        expect(reason({ spec }, privileged)).toBe('NotSupported');
        expect(admission({ spec }, privileged)?.notice?.message).toContain(source);
        const allowed = withPolicy({ podSecurity: 'privileged', volumeTypes: ['cephfs', source] });
        expect(admission({ spec }, allowed)).toEqual({ wanted: true });
      },
    );

    it('takes no hostPath at the level baseline, though the policy names it (sync rule `pod-volumes`)', () => {
      const spec = { volumes: [{ name: 'v', hostPath: { path: '/' } }] };
      expect(reason({ spec }, withPolicy({ volumeTypes: ['hostPath'] }))).toBe('PodSecurity');
    });

    it('refuses what the Pod Security level does not allow, in words (sync rule `pod-security`)', () => {
      const answer = admission({
        spec: { hostNetwork: true, volumes: [{ name: 'v', hostPath: { path: '/' } }] },
      });
      expect(answer?.notice).toMatchObject({ type: 'Warning', reason: 'PodSecurity' });
      expect(answer?.notice?.message).toMatch(/"baseline".*hostNetwork=true.*hostPath volumes \("v"\)/);
    });

    it('refuses pods of DaemonSets unless the policy allows them, and names the policy (sync rule `pod-creation`)', () => {
      expect(reason({ metadata: podOfDaemonSet })).toBe('DaemonSetsNotAllowed');
      expect(admission({ metadata: podOfDaemonSet })?.notice?.message).toContain('daemonSets: deny');
      expect(admission({ metadata: podOfDaemonSet }, withPolicy({ daemonSets: 'allow' }))).toEqual({
        wanted: true,
      });
    });

    it('takes a bare pod that names its node for one of a DaemonSet: its owners are for the tenant to write', () => {
      const named = { matchFields: [{ key: 'metadata.name', operator: 'In', values: ['n1'] }] };
      const zone = { matchExpressions: [{ key: 'zone', operator: 'In', values: ['a'] }] };
      const spec = (...nodeSelectorTerms: NodeSelectorTerm[]): PodSpec => ({
        affinity: {
          nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } },
        },
      });
      expect(reason({ spec: spec(named) })).toBe('DaemonSetsNotAllowed');
      expect(reason({ spec: spec({ ...named, ...zone }, named) })).toBe('DaemonSetsNotAllowed');
      const allButOne = { matchFields: [{ key: 'metadata.name', operator: 'NotIn', values: ['n2'] }] };
      expect(reason({ spec: spec(allButOne) })).toBe('DaemonSetsNotAllowed');
      expect(admission({ spec: spec(zone) })).toEqual({ wanted: true });
      // The other term may be one that no node meets.
      expect(reason({ spec: spec(named, zone) })).toBe('DaemonSetsNotAllowed');
      expect(admission({ spec: spec(named) }, withPolicy({ daemonSets: 'allow' }))).toEqual({ wanted: true });
    });

    it('takes a bare pod that names its node by the label of its host name for one of a DaemonSet', () => {
      const host = 'kubernetes.io/hostname';
      const required = (...nodeSelectorTerms: NodeSelectorTerm[]): PodSpec => ({
        affinity: {
          nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } },
        },
      });
      const by = (operator: string, ...values: string[]): NodeSelectorTerm => ({
        matchExpressions: [{ key: host, operator, ...(values.length === 0 ? {} : { values }) }],
      });
      const noSuchNode = { matchExpressions: [{ key: 'zone', operator: 'In', values: ['nowhere'] }] };
      const naming: PodSpec[] = [
        { nodeSelector: { [host]: 'n1' } },
        required(by('In', 'n1')),
        // The others may be no nodes, or all the other nodes.
        required(by('In', 'n1', 'no-node')),
        required(by('NotIn', 'n2', 'n3')),
        required(by('In', 'n1'), noSuchNode),
      ];
      for (const spec of naming) {
        expect(reason({ spec })).toBe('DaemonSetsNotAllowed');
        expect(admission({ spec }, withPolicy({ daemonSets: 'allow' }))).toEqual({ wanted: true });
      }
      const spread: PodSpec = {
        nodeSelector: { zone: 'a' },
        topologySpreadConstraints: [{ topologyKey: host, maxSkew: 1 }],
        affinity: {
          nodeAffinity: {
            requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [by('Exists')] },
            preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 1, preference: by('In', 'n1') }],
          },
        },
      };
      expect(admission({ spec: spread })).toEqual({ wanted: true });
    });

    it('says which tolerations stay behind, and by which policy', () => {
      const tolerations = [{ key: 'CriticalAddonsOnly', operator: 'Exists' }, { operator: 'Exists' }];
      expect(admission({ spec: { tolerations } })).toEqual({
        wanted: true,
        notice: {
          type: 'Warning',
          reason: 'TolerationsNotAllowed',
          message: expect.stringMatching(/CriticalAddonsOnly, all taints \(policy: tolerations\)/),
        },
      });
      const own = withPolicy({ tolerations: ['*', 'CriticalAddonsOnly'] });
      expect(admission({ spec: { tolerations } }, own)).toEqual({ wanted: true });
    });

    describe('by the lists of the policy', () => {
      const main = (more: object) => ({ containers: [{ name: 'main', image: 'good.example/a', ...more }] });
      const cases: [keyof TenantPolicy, string, Partial<TenantPolicy>, PodSpec, PodSpec][] = [
        [
          'imageRegistries',
          'the image of a container',
          { imageRegistries: ['good.example'] },
          main({}),
          main({ image: 'nginx' }),
        ],
        [
          'imageRegistries',
          'the image of an init container',
          { imageRegistries: ['good.example'] },
          { ...main({}), initContainers: [{ name: 'first', image: 'good.example/b' }] },
          { ...main({}), initContainers: [{ name: 'first', image: 'evil.example/good.example/b' }] },
        ],
        [
          'imageRegistries',
          'the image of a volume',
          { imageRegistries: ['good.example'], volumeTypes: ['image'] },
          { ...main({}), volumes: [{ name: 'v', image: { reference: 'good.example/data' } }] },
          { ...main({}), volumes: [{ name: 'v', image: { reference: 'data' } }] },
        ],
        [
          'imageRegistries',
          'an image that is no text',
          { imageRegistries: ['good.example'] },
          main({}),
          main({ image: { toString: 'good.example/a' } }),
        ],
        [
          'capabilities',
          'added capabilities',
          { capabilities: ['NET_BIND_SERVICE'] },
          main({ securityContext: { capabilities: { add: ['NET_BIND_SERVICE'] } } }),
          main({ securityContext: { capabilities: { add: ['CHOWN'] } } }),
        ],
        [
          'capabilities',
          'privileged containers, which have all',
          { capabilities: ['NET_ADMIN'], podSecurity: 'privileged' },
          main({ securityContext: { capabilities: { add: ['NET_ADMIN'] } } }),
          main({ securityContext: { privileged: true } }),
        ],
        [
          'hostPorts',
          'ports of the node',
          { hostPorts: ['9100-9199'], podSecurity: 'privileged' },
          main({ ports: [{ containerPort: 1, hostPort: 9100 }] }),
          main({ ports: [{ containerPort: 1, hostPort: 22 }] }),
        ],
        [
          'hostPorts',
          "the node's network, which has all of them",
          { hostPorts: ['9100-9199'], podSecurity: 'privileged' },
          main({}),
          { ...main({}), hostNetwork: true },
        ],
      ];
      it.each(cases)('%s judges %s', (field, _what, policy, good, bad) => {
        const over = withPolicy(policy);
        expect(admission({ spec: good }, over)).toEqual({ wanted: true });
        expect(admission({ spec: bad }, over)).toMatchObject({
          wanted: false,
          notice: { reason: 'NotSupported', message: expect.stringContaining(`policy: ${field}`) },
        });
        const { [field]: _without, ...rest } = policy;
        expect(admission({ spec: bad }, withPolicy(rest))).toEqual({ wanted: true });
      });
    });

    it('has every image pulled with the credentials of the pod where the policy says so (sync rule `pod-images`)', () => {
      const spec = {
        initContainers: [{ name: 'first', image: 'a', imagePullPolicy: 'Never' }],
        containers: [{ name: 'main', image: 'a', imagePullPolicy: 'IfNotPresent' }],
        volumes: [{ name: 'v', image: { reference: 'a', pullPolicy: 'IfNotPresent' } }],
      };
      const made = (over: SyncContext) => (podKind.toSuper(tenantPod({ spec }), over) as Pod).spec;
      expect(made(withPolicy({ alwaysPullImages: true }))).toMatchObject({
        initContainers: [{ imagePullPolicy: 'Always' }],
        containers: [{ imagePullPolicy: 'Always' }],
        volumes: [{ image: { reference: 'a', pullPolicy: 'Always' } }],
      });
      expect(made(context)).toMatchObject({ containers: [{ imagePullPolicy: 'IfNotPresent' }] });
    });

    describe('of a pod that many objects ask for', () => {
      /** Each has thousands of volumes, and the last of them is what it is refused for. */
      function counted(spec: PodSpec): { pod: Pod; reads: () => number } {
        let reads = 0;
        const pod = tenantPod({ spec });
        const { volumes } = pod.spec ?? {};
        Object.defineProperty(pod.spec, 'volumes', {
          enumerable: true,
          get() {
            reads++;
            return volumes;
          },
        });
        return { pod, reads: () => reads };
      }

      const volumes = [{ name: 'v', secret: { secretName: 'skerry-tokens' } }];

      it.each([{}, { ephemeralContainers: [] }])('is found once for each object of it: %o', (more) => {
        const { pod, reads } = counted({ volumes, ...more });
        expect(podKind.admit?.(pod, context)?.notice?.reason).toBe('ReservedName');
        const once = reads();
        expect(once).toBeGreaterThan(0);
        for (let look = 0; look < 10; look++)
          expect(podKind.admit?.(pod, context)?.notice?.reason).toBe('ReservedName');
        expect(reads()).toBe(once);
      });

      it.each([
        ['annotations', 'unheard-of.example/'],
        ['labels', 'istio.io/'],
      ])('reads its %s once', (field, prefix) => {
        let walks = 0;
        const many = Array.from({ length: 1_000 }, (_, at) => [`${prefix}${at}`, 'x']);
        const keys = new Proxy<Record<string, string>>(Object.fromEntries(many), {
          ownKeys: (target) => {
            walks++;
            return Reflect.ownKeys(target);
          },
        });
        const pod = tenantPod({ metadata: { [field]: keys } });
        const told = { wanted: true, notice: { message: expect.stringContaining('and 995 more') } };
        expect(podKind.admit?.(pod, context)).toMatchObject(told);
        const once = walks;
        expect(once).toBeGreaterThan(0);
        for (let look = 0; look < 10; look++) expect(podKind.admit?.(pod, context)).toMatchObject(told);
        expect(walks).toBe(once);
      });

      it('is found anew under other settings, and when what it waits for comes', () => {
        const name = 'n'.repeat(250);
        const pod = tenantPod({ spec: { volumes: [{ name: 'v', configMap: { name } }] } });
        expect(podKind.admit?.(pod, context)?.notice?.reason).toBe('ReservedName');
        const there = { kind: 'ConfigMap', metadata: { name, namespace: 'shop', uid: 'u' } };
        expect(podKind.admit?.(pod, podContext({ tenantObjects: [there] }))).toEqual({ wanted: true });
        const strict = { ...defaultPolicy, podSecurity: 'restricted' } as const;
        const over = podContext({ tenantObjects: [there], tenant: { policy: strict } });
        expect(podKind.admit?.(pod, over)?.notice?.reason).toBe('PodSecurity');
      });
    });

    it('refuses references to names that are reserved in super namespaces (sync rule `reserved-names`)', () => {
      expect(reason({ spec: { volumes: [{ name: 'v', secret: { secretName: 'skerry-tokens' } }] } })).toBe(
        'ReservedName',
      );
      const envFrom = [{ configMapRef: { name: 'tenant-kube-root-ca.crt' } }];
      expect(reason({ spec: { containers: [{ name: 'main', envFrom }] } })).toBe('ReservedName');
      expect(admission({ spec: { volumes: [{ name: 'v', secret: { secretName: 'tokens' } }] } })).toEqual({
        wanted: true,
      });
    });
  });
});

describe('policy', () => {
  function withPolicy(
    policy: Partial<TenantPolicy>,
    superObjects: KubeObject[] = [],
    tenantObjects: KubeObject[] = [],
  ) {
    return podContext({ tenant: { policy: { ...defaultPolicy, ...policy } }, superObjects, tenantObjects });
  }

  function superSpec(spec: PodSpec, context: SyncContext): PodSpec {
    return (podKind.toSuper(tenantPod({ spec }), context) as Pod).spec ?? {};
  }

  function admission(parts: PodParts, context: SyncContext) {
    return podKind.admit?.(tenantPod(parts), context);
  }

  function classOf(
    kind: string,
    name: string,
    uid: string,
    change: Partial<KubeObject['metadata']> = {},
  ): KubeObject {
    return { apiVersion: 'x', kind, metadata: { name, uid, ...change } };
  }

  /** A class that the operator has published, and the tenant's copy of it. */
  function published(kind: string, name: string): [original: KubeObject, copy: KubeObject] {
    return [
      classOf(kind, name, 'uid-of-original', { labels: { [labelKeys.public]: 'true' } }),
      classOf(kind, name, 'uid-of-copy', { annotations: { [annotationKeys.uid]: 'uid-of-original' } }),
    ];
  }

  describe('priority (sync rule `pod-classes`)', () => {
    const [original, copy] = published('PriorityClass', 'gold');
    const context = withPolicy({}, [original], [copy]);

    it('priorityClassName goes down for a published class, and nothing that comes of it', () => {
      const spec = { priorityClassName: 'gold', priority: 1000, preemptionPolicy: 'Never' };
      expect(admission({ spec }, context)).toEqual({ wanted: true });
      const s = superSpec(spec, context);
      expect(s.priorityClassName).toBe('gold');
      expect(s).not.toHaveProperty('priority');
      expect(s).not.toHaveProperty('preemptionPolicy');
    });

    it.each([
      ['is not in the super cluster', [], []],
      ['is not published', [classOf('PriorityClass', 'gold', 'uid-of-original')], [copy]],
      ['is one of the tenant by that name', [original], [classOf('PriorityClass', 'gold', 'own')]],
    ])('a class that %s is left behind, and the pod runs without and says so', (_what, below, above) => {
      const spec = { priorityClassName: 'gold', priority: 1000 };
      const context = withPolicy({}, below, above);
      expect(superSpec(spec, context)).not.toHaveProperty('priorityClassName');
      expect(admission({ spec }, context)).toMatchObject({
        wanted: true,
        notice: { type: 'Normal', reason: 'PriorityClassNotPublished' },
      });
    });

    it('system-* is dropped without a word, published or not', () => {
      const [system, copied] = published('PriorityClass', 'system-node-critical');
      const spec = { priorityClassName: 'system-node-critical', priority: 2_000_001_000 };
      const context = withPolicy({}, [system], [copied]);
      expect(superSpec(spec, context)).not.toHaveProperty('priorityClassName');
      expect(admission({ spec }, context)).toEqual({ wanted: true });
    });
  });

  describe('runtime classes (sync rule `pod-classes`)', () => {
    const [original, copy] = published('RuntimeClass', 'kata');
    const spec = { runtimeClassName: 'kata', overhead: { cpu: '250m' } };

    it('a published one goes down; its overhead is what the super cluster says', () => {
      const context = withPolicy({}, [original], [copy]);
      expect(admission({ spec }, context)).toEqual({ wanted: true });
      const s = superSpec(spec, context);
      expect(s.runtimeClassName).toBe('kata');
      expect(s).not.toHaveProperty('overhead');
    });

    it('another one is refused', () => {
      expect(admission({ spec }, withPolicy({}))?.notice).toMatchObject({ reason: 'NotSupported' });
      const own = classOf('RuntimeClass', 'kata', 'own');
      expect(admission({ spec }, withPolicy({}, [original], [own]))?.wanted).toBe(false);
    });

    it('the one that the policy forces is on every pod, whatever it asks for', () => {
      const forced = withPolicy({ runtimeClassName: 'gvisor' });
      expect(superSpec({}, forced).runtimeClassName).toBe('gvisor');
      expect(admission({ spec }, forced)).toEqual({ wanted: true });
      expect(superSpec(spec, forced).runtimeClassName).toBe('gvisor');
      expect(superSpec(spec, forced)).not.toHaveProperty('overhead');
    });
  });

  describe('schedulers (sync rule `pod-classes`)', () => {
    it('of the policy may be named, and no others', () => {
      const context = withPolicy({ schedulerNames: ['batch'] });
      expect(admission({ spec: { schedulerName: 'batch' } }, context)).toEqual({ wanted: true });
      expect(superSpec({ schedulerName: 'batch' }, context).schedulerName).toBe('batch');
      const refused = admission({ spec: { schedulerName: 'mine' } }, context);
      expect(refused?.notice?.reason).toBe('NotSupported');
      expect(refused?.notice?.message).toContain('schedulerNames');
    });

    it('the default of the tenant is the default of the super cluster', () => {
      expect(superSpec({ schedulerName: 'default-scheduler' }, withPolicy({}))).not.toHaveProperty(
        'schedulerName',
      );
    });
  });

  describe("the tenant's pool of nodes (sync rule `pod-classes`)", () => {
    const context = podContext({ tenant: { nodeSelector: { pool: 'blue' } } });
    const required = (...nodeSelectorTerms: NodeSelectorTerm[]): PodSpec => ({
      affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } } },
    });
    const expression = (key: string, operator: string, ...values: string[]) => ({
      matchExpressions: [{ key, operator, ...(values.length === 0 ? {} : { values }) }],
    });

    it('is in the nodeSelector of every super object', () => {
      expect(superSpec({}, context).nodeSelector).toEqual({ pool: 'blue' });
      expect(superSpec({ nodeSelector: { disk: 'ssd' } }, context).nodeSelector).toEqual({
        disk: 'ssd',
        pool: 'blue',
      });
    });

    it.each([
      ['another value', { nodeSelector: { pool: 'red' } }],
      ['another value by affinity', required(expression('pool', 'In', 'red', 'green'))],
      ['no such label', required(expression('pool', 'DoesNotExist'))],
      ['everything but it', required(expression('pool', 'NotIn', 'blue'), expression('pool', 'In', 'red'))],
    ])('keeps a pod pending that asks for %s, and says why', (_what, spec) => {
      const answer = admission({ spec }, context);
      expect(answer).toMatchObject({ wanted: false, notice: { type: 'Warning', reason: 'NodesNotAllowed' } });
      expect(answer?.notice?.message).toContain('pool=blue');
      expect(superSpec(spec, context).nodeSelector).toMatchObject({ pool: 'blue' });
    });

    it.each([
      ['the same', { nodeSelector: { pool: 'blue' } }],
      ['it among others', required(expression('pool', 'In', 'red', 'blue'))],
      ['it as an alternative', required(expression('pool', 'In', 'red'), expression('zone', 'In', 'a'))],
      ['a label that only the language knows', required(expression('constructor', 'DoesNotExist'))],
    ])('takes a pod that asks for %s', (_what, spec) => {
      expect(admission({ spec }, context)).toEqual({ wanted: true });
    });

    it.each([
      ['Gt', '3', true],
      ['Gt', '5', false],
      ['Lt', '6', true],
      ['Lt', '5', false],
      ['Lt', 'many', false],
    ])('compares numbers: 5 %s %s is %j', (operator, than, isTaken) => {
      const numbered = podContext({ tenant: { nodeSelector: { generation: '5' } } });
      const answer = admission({ spec: required(expression('generation', operator, than)) }, numbered);
      expect(answer?.wanted).toBe(isTaken);
    });
  });

  describe('hidden nodes', () => {
    const node: KubeObject = {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: 'n1', uid: 'u1', labels: { 'kubernetes.io/hostname': 'n1.rack' } },
    };
    const context = podContext({ tenant: { hideNodes: true }, superObjects: [node] });
    const shown = shownNodeName(context.tenant, 'n1');
    const byName = (operator: string, name: string): NodeSelectorTerm => ({
      matchFields: [{ key: 'metadata.name', operator, values: [name] }],
    });
    const byHostName = (name: string): NodeSelectorTerm => ({
      matchExpressions: [{ key: 'kubernetes.io/hostname', operator: 'In', values: [name] }],
    });
    const affinity = (term: NodeSelectorTerm): PodSpec => ({
      affinity: {
        nodeAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [term] },
          preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 1, preference: term }],
        },
      },
    });

    it('a pod of a DaemonSet runs on the node that it names by matchFields (sync rule `pod-creation`)', () => {
      expect(superSpec(affinity(byName('In', shown)), context).affinity).toEqual(
        affinity(byName('In', 'n1')).affinity,
      );
      const plain = podContext();
      expect(superSpec(affinity(byName('In', 'n1')), plain).affinity).toEqual(
        affinity(byName('In', 'n1')).affinity,
      );
    });

    it('a host name means the node that is shown under it', () => {
      expect(superSpec({ nodeSelector: { 'kubernetes.io/hostname': shown } }, context).nodeSelector).toEqual({
        'kubernetes.io/hostname': 'n1.rack',
      });
      expect(superSpec(affinity(byHostName(shown)), context).affinity).toEqual(
        affinity(byHostName('n1.rack')).affinity,
      );
    });

    it('a real name leads nowhere', () => {
      const wanted = [affinity(byName('In', 'n1')), affinity(byHostName('n1.rack'))];
      for (const spec of [...wanted, { nodeSelector: { 'kubernetes.io/hostname': 'n1.rack' } }]) {
        const { affinity, nodeSelector } = superSpec(spec, context);
        expect(JSON.stringify({ affinity, nodeSelector })).not.toContain('n1');
      }
    });

    it.each(['spec.nodeName', 'status.hostIP', 'status.hostIPs'])(
      'refuses a pod that asks for %s by the downward API (sync rule `downward-api`)',
      (fieldPath) => {
        const env = [{ name: 'WHERE', valueFrom: { fieldRef: { fieldPath } } }];
        const items = [{ path: 'where', fieldRef: { fieldPath } }];
        const asking: PodSpec[] = [
          { containers: [{ name: 'main', env }] },
          { initContainers: [{ name: 'init', env }] },
          { volumes: [{ name: 'v', downwardAPI: { items } }] },
          { volumes: [{ name: 'v', projected: { sources: [{ downwardAPI: { items } }] } }] },
        ];
        for (const spec of asking) {
          const answer = admission({ spec }, context);
          expect(answer).toMatchObject({ wanted: false, notice: { reason: 'NotSupported' } });
          expect(answer?.notice?.message).toContain(fieldPath);
          expect(admission({ spec }, podContext())).toEqual({ wanted: true });
        }
      },
    );
  });
});
