import { Line } from './line.ts';

/**
 * Where a pod of a tenant stands.
 *
 * - `parked`: it waits for a place in the window.
 * - `granted`: it has one, and its key is queued.
 * - `creating`: it is being created.
 * - `waiting`: the super cluster has it, and the scheduler has yet to look at it.
 * - `refused`: the scheduler could not place it. It is out of the window and counts against the tenant's other limit.
 */
export type Phase = 'parked' | 'granted' | 'creating' | 'waiting' | 'refused';

export class Place {
  readonly tenant: TenantPlaces;
  readonly id: string;
  phase: Phase;
  /** Asked for, or granted, since the last run of its key began: what is not is let go of when the run ends. */
  kept = true;
  /** When it came to the scheduler; undefined: nobody saw that. */
  since: number | undefined = undefined;
  /** Since when it is known to wait, for the scheduler or for its own tenant. */
  knownSince: number | undefined = undefined;
  /** Pods in the window when it came in. */
  inUse = 0;

  constructor(tenant: TenantPlaces, id: string, phase: Phase) {
    this.tenant = tenant;
    this.id = id;
    this.phase = phase;
  }
}

/** What the window knows of one tenant. */
export class TenantPlaces {
  readonly uid: string;
  weight: number;
  readonly places = new Map<string, Place>();
  readonly parked = new Line<Place>();
  /** Granted, creating and waiting. */
  active = 0;
  refused = 0;
  /** It has let places go by, and has not come for one since. */
  isStalled = false;
  /** When it last got a place, as a number that grows: of equals, who has waited longest goes first. */
  turn = 0;

  constructor(uid: string, weight: number) {
    this.uid = uid;
    this.weight = weight;
  }
}

export function isActive(phase: Phase): boolean {
  return phase === 'granted' || phase === 'creating' || phase === 'waiting';
}
