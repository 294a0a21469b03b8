export { grantRights } from './grant-rights.ts';
export { aggregateLabel, rightsManifests, userOf } from './manifests.ts';
export { loadRights, type PolicyRule, type ProgramName, programs, type Rights } from './rights.ts';
