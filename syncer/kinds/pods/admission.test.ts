import { describe, expect, it } from 'vitest';
import { annotationKeys } from '../../../api/labels.ts';
import { defaultPolicy, type TenantPolicy } from '../../../api/policy.ts';
import { podKind } from './index.ts';
import { type PodParts, podContext, superPod, superUid, tenantPod } from './testing.ts';

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

  it('has no S for a pod that presets its nodeName, and says so (rule 5)', () => {
    expect(reason({ spec: { nodeName: 'n1' } })).toBe('NotSupported');
  });

  it('keeps the S of a pod that we have bound', () => {
    const t = tenantPod({
      spec: { nodeName: 'n1' },
      metadata: { annotations: { [annotationKeys.superUid]: superUid } },
    });
    expect(podKind.admit?.(t, context)).toEqual({ wanted: true });
    const s = superPod(t, { spec: { nodeName: 'n1' } });
    expect(podKind.admit?.(t, podContext({ superObjects: [s] }))).toEqual({ wanted: true });
  });

  it('keeps it too when somebody replaced the annotations of T and our mark with them', () => {
    const t = tenantPod({ spec: { nodeName: 'n1' } });
    const s = superPod(t, { spec: { nodeName: 'n1' } });
    expect(podKind.admit?.(t, podContext({ superObjects: [s] }))).toEqual({ wanted: true });
  });

  it('keeps it when the super cluster has forgotten that S has a node', () => {
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

  it('waits without a word while a pod has scheduling gates (rule 16)', () => {
    expect(admission({ spec: { schedulingGates: [{ name: 'example.com/gate' }] } })).toEqual({
      wanted: false,
    });
  });

  it('refuses what would leave the tenant by a name that is not its own (rules 14, 15)', () => {
    expect(reason({ spec: { runtimeClassName: 'kata' } })).toBe('NotSupported');
    expect(reason({ spec: { schedulerName: 'mine' } })).toBe('NotSupported');
    expect(reason({ spec: { resourceClaims: [{ name: 'gpu' }] } })).toBe('NotSupported');
    expect(reason({ metadata: { namespace: 'kube-node-lease' } })).toBe('NotSupported');
  });

  it.each(['clusterTrustBundle', 'podCertificate'])(
    'refuses the projection %s at every level (rule 14)',
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
    'image',
  ])('takes volumes of type %s (rule 14)', (source) => {
    expect(admission({ spec: { volumes: [{ name: 'v', [source]: {} }] } })).toEqual({ wanted: true });
  });

  it.each(['hostPath', 'nfs', 'iscsi', 'csi', 'gitRepo', 'something-of-tomorrow'])(
    'takes volumes of type %s by policy only, whatever the Pod Security level (rule 14)',
    (source) => {
      const spec = { volumes: [{ name: 'v', [source]: {} }] };
      const privileged = withPolicy({ podSecurity: 'privileged' });
      expect(reason({ spec }, privileged)).toBe('NotSupported');
      expect(admission({ spec }, privileged)?.notice?.message).toContain(source);
      const allowed = withPolicy({ podSecurity: 'privileged', volumeTypes: ['cephfs', source] });
      expect(admission({ spec }, allowed)).toEqual({ wanted: true });
    },
  );

  it('takes no hostPath at the level baseline, though the policy names it (rule 14)', () => {
    const spec = { volumes: [{ name: 'v', hostPath: { path: '/' } }] };
    expect(reason({ spec }, withPolicy({ volumeTypes: ['hostPath'] }))).toBe('PodSecurity');
  });

  it('refuses what the Pod Security level does not allow, in words (rule 14)', () => {
    const answer = admission({
      spec: { hostNetwork: true, volumes: [{ name: 'v', hostPath: { path: '/' } }] },
    });
    expect(answer?.notice).toMatchObject({ type: 'Warning', reason: 'PodSecurity' });
    expect(answer?.notice?.message).toMatch(/"baseline".*hostNetwork=true.*hostPath volumes \("v"\)/);
  });

  it('refuses pods of DaemonSets unless the policy allows them, and names the policy (rule 5)', () => {
    expect(reason({ metadata: podOfDaemonSet })).toBe('DaemonSetsNotAllowed');
    expect(admission({ metadata: podOfDaemonSet })?.notice?.message).toContain('daemonSets: deny');
    expect(admission({ metadata: podOfDaemonSet }, withPolicy({ daemonSets: 'allow' }))).toEqual({
      wanted: true,
    });
  });

  it('refuses references to names that are reserved in super namespaces (rule §1)', () => {
    expect(reason({ spec: { volumes: [{ name: 'v', secret: { secretName: 'skerry-tokens' } }] } })).toBe(
      'ReservedName',
    );
    const envFrom = [{ configMapRef: { name: 'tenant-kube-root-ca.crt' } }];
    expect(reason({ spec: { containers: [{ name: 'main', envFrom }] } })).toBe('ReservedName');
  });
});
