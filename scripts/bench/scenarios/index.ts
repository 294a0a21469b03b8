import type { Scenario } from '../scenario.ts';
import { burst } from './burst.ts';
import { create } from './create.ts';
import { fairness } from './fairness.ts';
import { footprint } from './footprint.ts';
import { latency } from './latency.ts';

/** In the order in which they run: first what wants a stack that has done nothing yet. */
export const scenarios: readonly Scenario[] = [create, footprint, latency, burst, fairness];
