export { identify, isAlive, isComparable, type ProcessIdentity, sendSignal } from './process-identity.ts';
export { processesWithVariable, sessionOf } from './process-table.ts';
