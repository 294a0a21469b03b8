import type { Condition } from '../../kube/index.ts';

const mostConditions = 50;
const mostCharacters = 16_384;

/**
 * Whether a list of conditions of a tenant object is larger than any that means something. A patch that adds one to it, or
 * takes one away, repeats all of it, so there is none.
 */
export function isTooLargeToRepeat(conditions: readonly Condition[]): boolean {
  return conditions.length > mostConditions || JSON.stringify(conditions).length > mostCharacters;
}
