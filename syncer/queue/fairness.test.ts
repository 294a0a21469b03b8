import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Simulation } from './testing/simulation.ts';

const tenant = fc.record({
  weight: fc.integer({ min: 1, max: 10 }),
  /** Costs are drawn in turn. */
  costsMs: fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 1, maxLength: 5 }),
});

function addWork(simulation: Simulation, name: string, costsMs: number[], totalMs: number) {
  let sum = 0;
  for (let i = 0; sum < totalMs; i += 1) {
    const costMs = costsMs[i % costsMs.length] as number;
    simulation.queue.add({ tenant: name, id: `item-${i}`, costMs });
    sum += costMs;
  }
}

describe('service over time', () => {
  it('differs between backlogged tenants by a constant, however long they run', () => {
    const runMs = 2_000;
    fc.assert(
      fc.property(
        fc.array(tenant, { minLength: 2, maxLength: 6 }),
        fc.integer({ min: 1, max: 8 }),
        (tenants, workers) => {
          // No tenant is capped here: then order alone must be fair.
          const simulation = new Simulation({ maxConcurrent: workers, shareOf: () => workers });
          tenants.forEach(({ weight, costsMs }, i) => {
            simulation.queue.setWeight(`t${i}`, weight);
            addWork(simulation, `t${i}`, costsMs, runMs * workers);
          });
          simulation.runFor(runMs);
          const normalized = tenants.map(({ weight }, i) => simulation.serviceMs(`t${i}`) / weight);
          const largest = tenants.map(({ weight, costsMs }) => Math.max(...costsMs) / weight);
          tenants.forEach((_, i) => {
            tenants.forEach((__, j) => {
              const bound = (workers + 1) * ((largest[i] as number) + (largest[j] as number));
              expect((normalized[i] as number) - (normalized[j] as number)).toBeLessThanOrEqual(bound);
            });
          });
        },
      ),
      { numRuns: 200 },
    );
  });

  it('leaves no worker idle while anything may run', () => {
    fc.assert(
      fc.property(
        fc.array(tenant, { minLength: 1, maxLength: 5 }),
        fc.integer({ min: 1, max: 6 }),
        (tenants, workers) => {
          const simulation = new Simulation({ maxConcurrent: workers, shareOf: () => workers });
          tenants.forEach(({ costsMs }, i) => {
            addWork(simulation, `t${i}`, costsMs, 1_000 * workers);
          });
          simulation.runFor(500);
          const service = tenants.reduce((sum, _, i) => sum + simulation.serviceMs(`t${i}`), 0);
          expect(service).toBe(500 * workers);
        },
      ),
      { numRuns: 100 },
    );
  });

  it('reaches a newcomer as fast as everyone else, at whatever moment it comes', () => {
    fc.assert(
      fc.property(
        fc.array(tenant, { minLength: 1, maxLength: 4 }),
        fc.integer({ min: 1, max: 6 }),
        fc.integer({ min: 0, max: 1_000 }),
        (tenants, workers, arrivesAfterMs) => {
          const simulation = new Simulation({ maxConcurrent: workers, shareOf: () => workers });
          tenants.forEach(({ costsMs }, i) => {
            addWork(simulation, `t${i}`, costsMs, 4_000 * workers);
          });
          simulation.runFor(arrivesAfterMs);
          const since = simulation.clock.monotonic();
          addWork(simulation, 'new', [5], 4_000 * workers);
          simulation.runFor(2_000);
          const fair = (2_000 * workers) / (tenants.length + 1);
          const largest = Math.max(5, ...tenants.flatMap(({ costsMs }) => costsMs));
          const difference = simulation.serviceMs('new', since) - fair;
          expect(Math.abs(difference)).toBeLessThanOrEqual(2 * (workers + 1) * largest);
        },
      ),
      { numRuns: 100 },
    );
  });
});
