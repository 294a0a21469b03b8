import { expect, it } from 'vitest';
import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import { describeDeletion } from './delete.ts';

it('a dry run says what goes with a tenant, as far as that is known', () => {
  const blue: VirtualCluster = {
    metadata: { name: 'blue', namespace: 'teams' },
    status: {
      endpoint: 'https://127.0.0.1:21000',
      driver: 'process',
      datastore: 'own',
      usage: { pods: 4, services: 2 },
    },
  };
  const running = describeDeletion(blue, ' (dry run)');
  expect(running).toContain('"blue" would be deleted (dry run), with:');
  expect(running).toContain('4 pods, 2 services, its namespaces');
  expect(running).toContain('https://127.0.0.1:21000 (driver process)');
  expect(running).toContain('its datastore, certificates');
  const unborn = describeDeletion({ metadata: { name: 'new', namespace: 'teams' } });
  expect(unborn).toContain('what it runs, its namespaces');
  expect(unborn).toContain('none yet');
  expect(unborn).toContain('its keys in the shared datastore');
});
