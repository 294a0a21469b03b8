export { disruptionBudget } from './disruption-budget.ts';
export { filesSecret } from './files.ts';
export { namespaceManifest } from './namespace.ts';
export { type NetworkOptions, networkPolicies } from './network-policies.ts';
export { serviceManifest } from './service.ts';
export { type Storage, statefulSetManifest, type WorkloadOptions } from './stateful-set.ts';
