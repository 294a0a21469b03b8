export { ceilingOf } from './ceiling.ts';
export { effectivePolicy, type PolicyAnswer, type PolicyQuestion } from './effective-policy.ts';
