import type { KeyRef } from '../kinds/contract.ts';
import { originalUid } from '../mapping/labels.ts';
import type { EngineObserver } from '../reconcile/engine.ts';
import type { PodTraces } from './pod-traces.ts';
import type { Trace } from './trace.ts';

type Tenant = Parameters<NonNullable<EngineObserver['queued']>>[0];

/** Notes in the traces what the engine does with pods. */
export function observePods(
  traces: PodTraces,
): Required<Pick<EngineObserver, 'queued' | 'taken' | 'held' | 'admitted' | 'acting' | 'acted'>> {
  const traceOf = ({ info }: Tenant, { namespace, name }: KeyRef): Trace | undefined =>
    traces.find(info.uid, namespace, name);
  return {
    queued: (tenant, key) => {
      if (key.kind === 'pods') traceOf(tenant, key)?.mark('queued');
    },
    taken: (tenant, key) => {
      if (key.kind === 'pods') traceOf(tenant, key)?.mark('taken');
    },
    held: (tenant, key) => traceOf(tenant, key)?.mark('held'),
    admitted: (tenant, key) => {
      const trace = traceOf(tenant, key);
      if (trace?.has('held')) trace.mark('admitted');
    },
    acting: (tenant, key, action) => {
      if (key.kind !== 'pods') return;
      const trace = traceOf(tenant, key);
      if (trace === undefined) return;
      if (action.do === 'createSuper') {
        if (originalUid(action.object) === trace.uid) trace.mark('createSent');
      } else if (action.do === 'bindTenant') {
        if (trace.has('scheduled')) trace.mark('bindingSent');
      } else if (action.do === 'patchTenant' && action.subresource === 'status') {
        if (trace.has('ready')) trace.mark('statusSent');
      }
    },
    acted: (tenant, key, action) => {
      if (key.kind === 'pods') {
        if (action.do === 'createSuper') {
          const trace = traceOf(tenant, key);
          if (originalUid(action.object) === trace?.uid) trace?.mark('created');
        } else if (action.do === 'bindTenant') {
          const trace = traceOf(tenant, key);
          if (trace?.has('bindingSent')) trace.mark('bound');
        }
      } else if (key.kind === 'tokens' && (action.do === 'createSuper' || action.do === 'patchSuper')) {
        const trace = traceOf(tenant, key);
        if (trace?.has('bound')) trace.mark('tokensWritten');
      }
    },
  };
}
