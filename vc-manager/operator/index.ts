export type { OperatorErrorCode } from './errors.ts';
export { Operator } from './operator.ts';
export type { OperatorOptions } from './options.ts';
export { findOrphans, type Orphans } from './orphans.ts';
export type { Datastore } from './services.ts';
export type { OperatorSettings, OperatorSettingsInput } from './settings.ts';
