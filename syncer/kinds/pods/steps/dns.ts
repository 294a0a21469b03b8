import type { PodStep } from '../translate.ts';

/** Sync rules 11 and 12: the tenant's DNS and host names will be put in here; until then both stay as T has them. */
export const dns: PodStep = (spec) => spec;
