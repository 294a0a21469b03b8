import { describe, expect, it } from 'vitest';
import { annotationKeys } from '../../../api/labels.ts';
import { resources } from '../../../kube/index.ts';
import type { Lookup, SyncContext } from '../context.ts';
import { testTenant } from '../testing.ts';
import { podKind } from './index.ts';
import { type PodParts, superPod, superUid, tenantPod } from './testing.ts';
import type { Pod, PodStatus } from './types.ts';

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

/** Knows of S and nothing else, and whoever asks for more makes the test fail. */
function contextOf(s: Pod, hideNodes: boolean): SyncContext {
  const refused = (): never => {
    throw new Error('looked at another object');
  };
  const lookup: Lookup = {
    get: ((resource: unknown, { name }: { name: string }) =>
      resource === resources.pods && name === s.metadata.name ? s : refused()) as Lookup['get'],
    byIndex: refused,
  };
  const tenant = testTenant({ hideNodes });
  return {
    tenant,
    tenantObjects: { get: refused, byIndex: refused },
    superObjects: lookup,
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
    expect(podKind.dependsOnPairAlone?.(t, s)).toBe(true);
    const context = contextOf(s, hideNodes);
    expect(podKind.admit?.(t, context)).toEqual({ wanted: true });
    expect(podKind.down(t, s, context)).toEqual([]);
    expect(podKind.up?.(t, s, context)).toEqual([]);
  });

  it.each(others)('depends on more: %s', (_name, own, theirs) => {
    const { t, s } = pair(own, theirs);
    expect(podKind.dependsOnPairAlone?.(t, s)).toBe(false);
  });
});
