import { clusterScopedChecks } from './kinds/cluster-scoped.ts';
import { configChecks } from './kinds/config.ts';
import { podChecks } from './kinds/pods.ts';
import { policyChecks } from './kinds/policies-and-ingresses.ts';
import { serviceChecks } from './kinds/services.ts';
import { tokenChecks } from './kinds/tokens.ts';
import { inMetadata, type KindChecks, type SeededDifference } from './seeded-differences.ts';

/** All kinds that are compared. */
export const kindChecks: readonly KindChecks[] = [
  configChecks,
  podChecks,
  tokenChecks,
  serviceChecks,
  policyChecks,
  clusterScopedChecks,
];

export const seededDifferences: readonly SeededDifference[] = [
  ...inMetadata,
  ...kindChecks.flatMap(({ seeded }) => seeded),
];
