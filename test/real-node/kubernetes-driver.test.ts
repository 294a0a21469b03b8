import { inject } from 'vitest';
import { describeDriver } from '../drivers/conformance.ts';
import { kubernetesWorld } from './suite/kubernetes-world.ts';

describeDriver('kubernetes', () => kubernetesWorld(inject('cluster')), {
  portsOfThisMachine: false,
  // By the driver's own tests, and on nodes in kubernetes-replicas.test.ts and chart.test.ts.
  provenElsewhere: ['partialStop', 'versionChange', 'partialChange', 'stop', 'failure'],
});
