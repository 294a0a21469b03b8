import type { SuperWatch } from '../reconcile/caches.ts';
import { eventWatch } from './events.ts';

/** What the special controllers have followed in the super cluster. */
export const superWatches: readonly SuperWatch[] = [eventWatch];
