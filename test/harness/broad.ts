export { isBroad, itBroadly } from '../../kube/testing/broad.ts';
