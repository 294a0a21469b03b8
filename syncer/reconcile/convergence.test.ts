import { describe, expect, it, onTestFailed } from 'vitest';
import { resources } from '../../kube/index.ts';
import { fastClock } from '../../kube/testing/fast-clock.ts';
import { superNamespaceName } from '../mapping/names.ts';
import { differences } from './testing/differences.ts';
import { RandomOperations, seeded, simulateControllers } from './testing/random-operations.ts';
import { TwoSides } from './testing/two-sides.ts';

const steps = 80;
/** `SKERRY_SEED=17` plays one again. */
const seeds = process.env['SKERRY_SEED']?.split(',').map(Number) ?? [1, 2, 3, 100, 110, 113, 126, 239];

describe('after whatever tenants, networks and crashes have done', () => {
  it.each(seeds)('both sides agree, without a resync (seed %i)', async (seed) => {
    let left: string[] = [];
    onTestFailed(() => console.error(`seed ${seed}:`, left));
    await using sides = await TwoSides.start(
      (s) => {
        s.super.server.put(resources.nodes, { metadata: { name: 'n1' } });
        s.inShop(resources.serviceAccounts, { metadata: { name: 'default' } });
      },
      { clock: fastClock(40) },
    );
    const operations = new RandomOperations(sides, seeded(seed));
    for (let step = 0; step < steps; step++) await operations.step();
    sides.tenant.server.clearFaults();
    sides.super.server.clearFaults();
    await sides.until(() => {
      simulateControllers(sides.super.server);
      left = differences(sides, (namespace) => superNamespaceName(sides.info, namespace));
      return left.length === 0;
    });
    expect(left).toEqual([]);
  });
});
