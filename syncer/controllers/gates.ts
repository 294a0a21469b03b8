import type { ActionGate } from '../reconcile/execute.ts';
import { definitionGate } from './custom-resources.ts';
import { podTokenGate } from './pod-tokens.ts';

/** What has to be asked or done before objects of some kinds are written, by name of the kind. */
export const actionGates: ReadonlyMap<string, ActionGate> = new Map([
  ['customresourcedefinitions', definitionGate],
  ['tokens', podTokenGate],
]);
