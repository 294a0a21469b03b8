export { datastorePlan } from './datastore-plan.ts';
export { LocalStack, type LocalStackParts } from './local-stack.ts';
export { simulatedStorageClass } from './simulation.ts';
export { stackPorts } from './stack-ports.ts';
