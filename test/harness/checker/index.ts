export { type CheckedCluster, Checker } from './checker.ts';
