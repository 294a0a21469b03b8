export { ContainerStack, defaultContainerPorts } from './container-stack.ts';
export { datastorePlan } from './datastore-plan.ts';
export { LocalStack, type LocalStackParts } from './local-stack.ts';
export { simulatedStorageClass } from './simulation.ts';
export { type StackPorts, stackPortNames, stackPorts } from './stack-ports.ts';
