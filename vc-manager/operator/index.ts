export type { OperatorErrorCode } from './errors.ts';
export { Operator } from './operator.ts';
export { findOrphans, type Orphans } from './orphans.ts';
export type { Datastore, OperatorOptions } from './services.ts';
export type { OperatorSettings, OperatorSettingsInput } from './settings.ts';
