import { describe, expect, it } from 'vitest';
import { annotationKeys } from '../../../api/labels.ts';
import type { KubeObject } from '../../../kube/index.ts';
import { shownNodeName } from '../../mapping/index.ts';
import { testTenant } from '../testing.ts';
import { podKind } from './index.ts';
import { podContext, superPod, tenantPod } from './testing.ts';

const tenant = testTenant({ hideNodes: true });
const shown = shownNodeName(tenant, 'n1');
const node: KubeObject = { apiVersion: 'v1', kind: 'Node', metadata: { name: 'n1', uid: 'uid-n1' } };
const context = podContext({ tenant: { hideNodes: true }, superObjects: [node] });

describe('pods of a tenant that nodes are hidden from (rules 19 and 25)', () => {
  it('are bound to nodes by the names that it sees', () => {
    const t = tenantPod();
    const actions = podKind.up?.(t, superPod(t, { spec: { nodeName: 'n1' } }), context) ?? [];
    expect(actions.slice(0, 2)).toMatchObject([
      { do: 'require', keys: [{ kind: 'nodes', name: shown }] },
      { do: 'bindTenant', node: shown },
    ]);
  });

  it('have the labels of the zone they are in, but for one that names the node', () => {
    const [zone, region] = ['topology.kubernetes.io/zone', 'topology.kubernetes.io/region'];
    const t = tenantPod();
    const s = superPod(t, {
      spec: { nodeName: 'n1' },
      metadata: { labels: { [zone]: 'n1', [region]: 'north' } },
    });
    const bound = (podKind.up?.(t, s, context) ?? []).find((action) => action.do === 'bindTenant');
    expect(bound).toMatchObject({ labels: { [region]: 'north' } });
    expect(bound?.labels).not.toHaveProperty(zone);
  });

  it('show neither name nor address of the node in their status', () => {
    const t = tenantPod({ spec: { nodeName: shown } });
    const s = superPod(t, {
      spec: { nodeName: 'n1' },
      status: {
        phase: 'Running',
        message: 'n1 is full',
        hostIP: '198.51.100.4',
        hostIPs: [{ ip: '198.51.100.4' }, { ip: '2001:db8::4' }],
      },
    });
    const text = JSON.stringify(podKind.up?.(t, s, context));
    expect(text).toContain('"hostIP":"192.0.2.11","hostIPs":[{"ip":"192.0.2.11"}]');
    expect(text).toContain(`${shown} is full`);
    expect(text).not.toContain('198.51.100.4');
    const unbound = superPod(tenantPod(), { status: { phase: 'Pending', nominatedNodeName: 'n1' } });
    expect(JSON.stringify(podKind.up?.(tenantPod(), unbound, context))).toContain(
      `"nominatedNodeName":"${shown}"`,
    );
  });

  it('are known to be bound by us under that name, though they have lost the mark', () => {
    const t = tenantPod({ spec: { nodeName: shown } });
    const s = superPod(t, { spec: { nodeName: 'n1' } });
    const among = podContext({ tenant: { hideNodes: true }, superObjects: [node, s] });
    expect(podKind.admit?.(t, among).wanted).toBe(true);
    const byHand = tenantPod({ spec: { nodeName: 'n1' } });
    expect(podKind.admit?.(byHand, among).wanted).toBe(false);
  });

  it('touch the node that the tenant sees, from either side, where nodes are there for their pods', () => {
    const used = podContext({ tenant: { hideNodes: true, nodes: 'used' } });
    const pool = podContext({ tenant: { hideNodes: true, nodeSelector: { pool: 'a' } } });
    const t = tenantPod({ spec: { nodeName: shown } });
    const s = superPod(t, { spec: { nodeName: 'n1' } });
    for (const each of [used, pool]) {
      const key = { kind: 'nodes', name: shown };
      expect(podKind.touches?.tenant?.(t, each)).toContainEqual(key);
      expect(podKind.touches?.super?.(s, each)).toContainEqual(key);
    }
    expect(podKind.touches?.super?.(s, context)).toEqual([]);
    expect(s.metadata.annotations?.[annotationKeys.uid]).toBe(t.metadata.uid);
  });
});
