import { deepEqual } from 'fast-equals';
import { type KubeObject, type MergePatch, mergePatch } from '../../../kube/index.ts';
import { scrub } from '../../mapping/index.ts';
import type { SyncContext } from '../context.ts';

/** What is told of an occurrence; the rest of an event (its subject, its name) is made anew. */
const toldFields = [
  'reason',
  'message',
  'type',
  'source',
  'reportingComponent',
  'reportingInstance',
  'action',
  'count',
  'firstTimestamp',
  'lastTimestamp',
  'eventTime',
  'series',
] as const;

/** Of an event with a series; scrubbing can make a text longer. */
const maxMessageLength = 1_024;

/** What the copy of an event says, in the tenant's words. */
export function told(superObject: KubeObject, context: SyncContext): Record<string, unknown> {
  const result: Record<string, unknown> = {};
  for (const field of toldFields) {
    const value = superObject[field];
    if (value === undefined || value === null) continue;
    if (field === 'message') result[field] = scrub(String(value), context).slice(0, maxMessageLength);
    else if (field === 'source') result[field] = source(value as Source, context);
    else result[field] = value;
  }
  const instance = result['reportingInstance'];
  if (context.tenant.hideNodes && typeof instance === 'string' && instance !== '') {
    // Kubelet's is its node; others end in the name of the machine that they run on.
    const shown = scrub(instance, context);
    result['reportingInstance'] = shown === instance ? (result['reportingComponent'] ?? '') : shown;
  }
  return result;
}

/** What has to change in a copy so that it says this; `undefined` when it does. */
export function toldPatch(tenantObject: KubeObject, wanted: Record<string, unknown>): MergePatch | undefined {
  const present: Record<string, unknown> = {};
  for (const field of toldFields) {
    const value = tenantObject[field];
    if (value !== undefined && value !== null) present[field] = value;
  }
  return deepEqual(present, wanted) ? undefined : mergePatch(present, wanted);
}

interface Source {
  component?: string;
  host?: string;
}

function source({ component, host }: Source, context: SyncContext): Source {
  return {
    ...(component === undefined ? {} : { component }),
    ...(host === undefined ? {} : { host: scrub(host, context) }),
  };
}
