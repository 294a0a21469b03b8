import { describe, expect, it } from 'vitest';
import type { ControlPlaneTemplate } from '../../../api/control-plane-template.ts';
import { annotationKeys } from '../../../api/labels.ts';
import type { VirtualCluster, VirtualClusterStatus } from '../../../api/virtual-cluster.ts';
import {
  type KubeClient,
  type KubeObject,
  type Resource,
  resources,
  systemClock,
} from '../../../kube/index.ts';
import { loadTemplates } from '../../control-plane/template.ts';
import { SniRecorder } from '../testing/sni-recorder.ts';
import { beginUpgrade, describeUpgrade, isUpgraded, parseDeprecatedApis, planUpgrade } from './upgrade.ts';

const { signal } = new AbortController();
const [packaged] = await loadTemplates();

interface Place {
  running: string;
  superCluster?: string;
  templates: readonly string[];
  /** By the policy. */
  allowed?: readonly string[];
  status?: VirtualClusterStatus;
  /** `spec.template`. */
  template?: string;
  /** `spec.version`. */
  asked?: string;
}

/** What would be done with a tenant, without asking its API server. */
async function planned(
  {
    running,
    superCluster = running,
    templates,
    allowed,
    status = { phase: 'Asleep' },
    template,
    asked,
  }: Place,
  version?: string,
  kubeconfigSecret: Promise<KubeObject> = Promise.reject(new Error('the tenant is asked')),
) {
  kubeconfigSecret.catch(() => {});
  const spec = packaged?.spec as ControlPlaneTemplate['spec'];
  const known = templates.map((kubernetesVersion) => ({
    ...{ apiVersion: 'skerry.dev/v1alpha1', kind: 'ControlPlaneTemplate' },
    metadata: { name: `v${kubernetesVersion.split('.').slice(0, 2).join('-')}` },
    spec: { ...structuredClone(spec), kubernetesVersion },
  }));
  const policy = { metadata: { name: 'p' }, spec: { namespaces: ['teams'], templates: allowed } };
  const client = {
    list: async ({ plural }: Resource) => {
      if (plural === resources.controlPlaneTemplates.plural) return { items: known };
      return { items: allowed === undefined ? [] : [policy] };
    },
    raw: async () => ({ gitVersion: `v${superCluster}` }),
    get: () => kubeconfigSecret,
  } as unknown as KubeClient;
  const metadata = { namespace: 'teams', name: 'blue', uid: 'u', generation: 1 };
  const vc: VirtualCluster = {
    ...{ metadata, spec: { ...(template && { template }), ...(asked && { version: asked }) } },
    status: { ...status, version: running },
  };
  return planUpgrade(client, vc, version, signal);
}

describe('the version of an upgrade that names none', () => {
  it.each([
    ['the newest', { running: '1.35.1', superCluster: '1.36.0', templates: ['1.35.4', '1.36.3'] }, '1.36.3'],
    [
      'one minor version on',
      { running: '1.35.1', superCluster: '1.37.0', templates: ['1.36.3', '1.37.0'] },
      '1.36.3',
    ],
    [
      'not too new for the super cluster',
      { running: '1.35.1', superCluster: '1.34.2', templates: ['1.35.4', '1.36.3'] },
      '1.35.4',
    ],
    [
      'allowed by the policy',
      { running: '1.35.1', templates: ['1.35.4', '1.36.3'], allowed: ['v1-35'] },
      '1.35.4',
    ],
  ] as const)('is %s', async (_, place, target) => {
    const plan = await planned(place);
    expect(plan.change).toEqual({ from: place.running, to: target });
  });

  it('is the one that runs when all others are earlier, or none of them is possible, which is said', async () => {
    const vc = { metadata: { name: 'blue' }, status: { version: '1.36.5' } };
    const newest = await planned({ running: '1.36.5', templates: ['1.36.3', '1.35.4'] });
    expect(describeUpgrade(vc, newest)).toBe('blue runs 1.36.5 already\n');
    const kept = await planned({ running: '1.36.5', superCluster: '1.35.0', templates: ['1.37.1'] });
    expect(kept.change).toBeUndefined();
    expect(describeUpgrade(vc, kept)).toMatch(
      /^blue runs 1\.36\.5 already\nblue cannot go to 1\.37\.1\. .+\n$/,
    );
  });

  it('is none of another minor version than the template that the spec names, which is said', async () => {
    const place = { running: '1.35.4', superCluster: '1.36.0', templates: ['1.35.4', '1.36.3'] };
    expect((await planned(place)).change?.to).toBe('1.36.3');
    const { change, kept } = await planned({ ...place, template: 'v1-35' });
    expect(change).toBeUndefined();
    expect(kept).toContain(
      'the control plane template v1-35, which spec.template names, is for Kubernetes 1.35.4',
    );
    expect(kept).not.toContain('has no control plane template');
  });

  it('is one that is named and was not asked for before, whatever another one did', async () => {
    const held = { kind: 'version-change', generation: 1, why: 'It has no room.' } as const;
    const status = { phase: 'Asleep', jobs: { held } } as VirtualClusterStatus;
    const place = { running: '1.35.1', superCluster: '1.36.0', templates: ['1.35.4', '1.36.3'], status };
    const { change } = await planned({ ...place, asked: '1.36.3' }, '1.35.4');
    expect(change).toEqual({ from: '1.35.1', to: '1.35.4' });
    await expect(planned({ ...place, asked: '1.36.3' }, '1.36.3')).rejects.toThrow('went back to 1.35.1');
  });

  it('is no other one when the newest went back, nor is a version that is named', async () => {
    const held = { kind: 'version-change', generation: 1, why: 'It has no room.' } as const;
    const status = { phase: 'Ready', jobs: { held } } as VirtualClusterStatus;
    const place = { running: '1.35.1', superCluster: '1.36.0', templates: ['1.35.4', '1.36.3'] };
    await expect(planned({ ...place, status })).rejects.toMatchObject({
      code: 'Conflict',
      message: expect.stringContaining('went back to 1.35.1'),
    });
    await expect(planned({ ...place, superCluster: '1.34.0' }, '1.36')).rejects.toMatchObject({
      code: 'Conflict',
    });
  });
});

describe('an upgrade that is waited for', () => {
  const ref = { namespace: 'teams', name: 'blue' };
  const refused = {
    type: 'VersionCurrent',
    status: 'False',
    reason: 'VersionSkipped',
    message: 'It stays at 1.35.1: 1.37 is two minor versions on.',
    lastTransitionTime: '2026-01-01T00:00:00Z',
  } as const;
  const found = (generation: number, observed: number, status: VirtualClusterStatus): VirtualCluster => ({
    metadata: { ...ref, generation },
    status: {
      observedGeneration: observed,
      version: '1.35.1',
      conditions: [{ ...refused, observedGeneration: observed }],
      ...status,
    },
  });

  it('is not over because an earlier request was refused, or had failed', () => {
    expect(isUpgraded(found(2, 1, { phase: 'Ready' }), ref, '1.36.3')).toBe(false);
    expect(isUpgraded(found(2, 1, { phase: 'Failed' }), ref, '1.36.3')).toBe(false);
    const done = { phase: 'Ready', version: '1.36.3', conditions: [] } as const;
    expect(isUpgraded(found(2, 2, { ...done, conditions: [] }), ref, '1.36.3')).toBe(true);
  });

  it('is looked at anew where the spec asks for it already, and was refused', async () => {
    const status: VirtualClusterStatus = { phase: 'Ready' };
    const before = { ...found(2, 2, status), spec: { version: '1.36.3' } };
    const patches: Partial<VirtualCluster>[] = [];
    const client = {
      patch: async (_: Resource, __: unknown, patch: Partial<VirtualCluster>) => patches.push(patch),
    } as unknown as KubeClient;
    const plan = { target: '1.36.3', change: { from: '1.35.1', to: '1.36.3' }, removed: [] };
    const begin = (vc: VirtualCluster) =>
      beginUpgrade(client, vc, plan, false, { signal, clock: systemClock });
    const isFollowed = await begin(before);
    expect(isUpgraded(found(2, 2, status), ref, '1.36.3', isFollowed)).toBe(false);
    const retried = patches[0]?.metadata?.annotations?.[annotationKeys.retryJob] ?? '';
    const seen = { ...status, jobs: { retried } };
    expect(() => isUpgraded(found(2, 2, seen), ref, '1.36.3', isFollowed)).toThrow('two minor versions on');

    // What is under way, and another version, need none: the first goes on, the second is a change of the spec.
    await begin({ ...before, status: { version: '1.35.1' } });
    await begin({ ...before, spec: { version: '1.37.0' } });
    expect(patches.slice(1)).toEqual(Array(2).fill({ spec: { version: '1.36.3' } }));
  });

  it('ends with what the manager has against it', () => {
    expect(() => isUpgraded(found(2, 2, { phase: 'Ready' }), ref, '1.36.3')).toThrow('two minor versions on');
    expect(() => isUpgraded(found(2, 2, { phase: 'Failed' }), ref, '1.36.3')).toThrow(
      'blue has failed: see "vc-manager describe blue -n teams"',
    );
    expect(() => isUpgraded(undefined, ref, '1.36.3')).toThrow('blue is gone');
  });
});

const series = (labels: string, value = 1): string =>
  `apiserver_requested_deprecated_apis{${labels}} ${value}`;

describe('what speaks against an upgrade', () => {
  it('is what the tenant uses and the new version does not serve, each once', () => {
    const metrics = [
      '# TYPE apiserver_requested_deprecated_apis gauge',
      series(
        'group="flowcontrol.apiserver.k8s.io",removed_release="1.32",resource="flowschemas",subresource="",version="v1beta3"',
      ),
      series(
        'group="flowcontrol.apiserver.k8s.io",removed_release="1.32",resource="flowschemas",subresource="status",version="v1beta3"',
      ),
      series('group="",removed_release="",resource="componentstatuses",subresource="",version="v1"'),
      series('group="",removed_release="1.9",resource="old",subresource="",version="v1"', 0),
      series('group="policy",removed_release="1.40",resource="later",subresource="",version="v1beta1"'),
      'apiserver_request_total{resource="pods",removed_release="1.2"} 1',
    ].join('\n');
    expect(parseDeprecatedApis(metrics, '1.36.3')).toEqual([
      'flowschemas.v1beta3.flowcontrol.apiserver.k8s.io',
    ]);
    expect(parseDeprecatedApis(metrics, '1.40.0')).toHaveLength(2);
    expect(parseDeprecatedApis(metrics, '1.31.9')).toEqual([]);
  });

  it('is told with what would be done, which a dry run says of itself', () => {
    const vc = { metadata: { name: 'blue' }, status: { version: '1.35.4' } };
    const change = { from: '1.35.4', to: '1.36.3' };
    const plan = { target: '1.36', change, removed: ['flowschemas.v1beta3'] };
    const dry = describeUpgrade(vc, plan, ' (dry run)');
    expect(dry).toContain('blue would go from 1.35.4 to 1.36.3 (dry run): its API server is replaced');
    expect(dry).toContain('APIs that 1.36.3 does not have: flowschemas.v1beta3');
    expect(describeUpgrade(vc, plan)).not.toContain('dry run');
    expect(describeUpgrade(vc, { target: '1.35', removed: [] })).toBe('blue runs 1.35.4 already\n');
  });

  it('is unknown of a tenant that is asleep, which is not woken to be asked', async () => {
    const plan = await planned({ running: '1.35.1', superCluster: '1.36.0', templates: ['1.36.3'] });
    expect(plan.removed).toBeUndefined();
    const vc = { metadata: { name: 'blue' }, status: { version: '1.35.1', phase: 'Asleep' } } as const;
    const told = describeUpgrade(vc, plan, ' (dry run)');
    expect(told).toContain('(dry run): it is woken for that; its pods run on');
    expect(told).toContain('is unknown: it sleeps');
  });

  it('is asked of a tenant that is awake by the name that does not count as use', async () => {
    await using names = await SniRecorder.start();
    const status = { phase: 'Ready', gateway: names.gateway } as const;
    const place = { running: '1.35.1', superCluster: '1.36.0', templates: ['1.36.3'], status };
    await expect(planned(place, undefined, names.secret())).rejects.toThrow('cannot be asked');
    expect(new Set(names.heard)).toEqual(new Set([`background-${names.gateway.serverName}`]));
  });

  it('is told with how the API server is replaced', () => {
    const plan = { target: '1.36', change: { from: '1.35.4', to: '1.36.3' }, removed: [] };
    const told = (status: VirtualClusterStatus) =>
      describeUpgrade({ metadata: { name: 'blue' }, status }, plan);
    const gateway = { server: 'https://a:443', serverName: 'a' };
    for (const status of [{ gateway }, { driver: 'kubernetes' }] as const)
      expect(told(status)).toContain('started beside it');
    expect(told({ driver: 'process' })).toContain('away for some seconds');
  });

  it('has nothing in it that a terminal would act on, whatever a tenant answers', () => {
    const labels = 'group="a\u001b[2Jb",removed_release="1.2",resource="c\u202ed",version="v1\u0007"';
    expect(parseDeprecatedApis(series(labels), '1.36.3')).toEqual(['c?d.v1?.a?[2Jb']);
  });

  it('is looked for no longer than it takes, whatever a tenant answers', () => {
    const labels = `removed_release="1.2",${'a="'.repeat(100_000)}`;
    expect(parseDeprecatedApis(`${series(labels)}\n`.repeat(20), '1.36.3').length).toBeLessThanOrEqual(1);
  });
});
