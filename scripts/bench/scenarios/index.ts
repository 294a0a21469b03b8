import type { Scenario } from '../scenario.ts';
import { burst, burstTokens } from './burst.ts';
import { churn } from './churn.ts';
import { create } from './create.ts';
import { deletion } from './delete.ts';
import { fairness } from './fairness.ts';
import { footprint } from './footprint.ts';
import { latency } from './latency.ts';
import { patrol } from './patrol.ts';
import { restart } from './restart.ts';
import { soak } from './soak.ts';

/** In the order in which they run: first what wants a stack that has done nothing yet, last what leaves most behind. */
export const scenarios: readonly Scenario[] = [
  ...[create, footprint, restart, patrol],
  ...[latency, deletion, burst, burstTokens, fairness, churn, soak],
];
