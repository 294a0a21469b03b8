import { inject } from 'vitest';
import { describeDriver } from '../drivers/conformance.ts';
import { kubernetesWorld } from './suite/kubernetes-world.ts';

describeDriver('kubernetes', () => kubernetesWorld(inject('cluster')), { portsOfThisMachine: false });
