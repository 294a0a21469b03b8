import { deepEqual } from 'fast-equals';
import type { KubeObject } from '../../../kube/index.ts';
import type { Node } from './model.ts';

/** Whether a node has said no more than that it is still there. */
export function isHeartbeat(before: KubeObject, after: KubeObject): boolean {
  return deepEqual(told(before as Node), told(after as Node));
}

function told({ metadata, spec, status }: Node): unknown {
  const { labels, deletionTimestamp } = metadata;
  const conditions = status?.conditions?.map(({ lastHeartbeatTime: _beat, ...condition }) => condition);
  return { labels, deletionTimestamp, spec, status: { ...status, conditions } };
}
