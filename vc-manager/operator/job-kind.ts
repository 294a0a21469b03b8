import type { JobKind } from '../../api/job-status.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import type { Services } from './services.ts';
import { isHeld, renewalAsked } from './settle.ts';
import { versionChoice } from './version-choice.ts';

/** What is wanted for a VirtualCluster, by what stands in it. */
export interface WantedJob {
  kind: JobKind | 'look';
  /** Of a change of version: where to. */
  target?: string;
}

/** `look`: nothing long is known to be missing. */
export function wantedJob(vc: VirtualCluster, services: Services): WantedJob {
  const { metadata, status } = vc;
  const { clock } = services;
  if (metadata.deletionTimestamp !== undefined) return { kind: 'delete' };
  const current = status?.jobs?.current;
  if (status?.identities?.tenant === undefined || current?.kind === 'provision') return { kind: 'provision' };
  // It runs what it should; what is left to do is part of the change.
  if (current?.kind === 'version-change' && current.target !== undefined && current.target === status.version)
    return { kind: 'version-change', target: current.target };
  const target = versionChange(vc, services);
  if (target !== undefined) return { kind: 'version-change', target };
  if (renewalAsked(vc) !== undefined) return { kind: 'renewal' };
  const isRenewal = current?.kind === 'renewal' || Date.parse(status.certificatesDue ?? '') <= clock.now();
  if (isRenewal && !isHeld(vc, 'renewal', clock.now())) return { kind: 'renewal' };
  return { kind: 'look' };
}

function versionChange(vc: VirtualCluster, services: Services): string | undefined {
  try {
    return versionChoice(vc, services).change?.to;
  } catch {
    // The step that chooses says what is wrong.
    return undefined;
  }
}
