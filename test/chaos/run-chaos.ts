import { setTimeout as delay } from 'node:timers/promises';
import { type Resource, resources } from '../../kube/index.ts';
import { controllerRestarts, expectAgreementAfterLoad } from '../harness/after-load.ts';
import { Churn } from '../harness/churn.ts';
import { deployment, namespace, service } from '../harness/manifests.ts';
import type { StackInfo } from '../harness/stack.ts';
import { type Tenant, World } from '../harness/world.ts';
import { Faults, type NetworkCut, schedule } from './faults.ts';
import { Ledger, ShortLivedTenants } from './ledger.ts';

interface ChaosOptions {
  stack: StackInfo;
  seed: number;
  durationMs: number;
  /** Without it, nothing is cut off. */
  cut: NetworkCut | undefined;
  log: (line: string) => void;
}

/** Faults under load, then a look at both sides. Resolves to what is wrong; empty: nothing. */
export async function runChaos({ stack, seed, durationMs, cut, log }: ChaosOptions): Promise<string[]> {
  const world = new World(stack);
  try {
    const tenants = await world.createTenants('chaos-a', 'chaos-b', 'chaos-c');
    await Promise.all(tenants.map(prepare));
    await world.expectAgreement();
    const calm = await calmObjects(world, tenants);
    log(`3 tenants agree with the super cluster; seed ${seed}, ${Math.round(durationMs / 1000)} s of faults`);

    const churns = tenants.map(
      (tenant, index) => new Churn({ tenant, namespace: 'churn', seed: seed * 100 + index, parallel: 2 }),
    );
    const ledgers = tenants.map(
      (tenant, index) => new Ledger({ tenant, namespace: 'ledger', seed: seed * 100 + 50 + index }),
    );
    const passersBy = new ShortLivedTenants(world);
    const faults = new Faults(world, tenants, cut);
    const count = await disturb(faults, { seed, durationMs, cut, log });

    log('the faults are over; waiting for every part to run and for both sides to agree');
    await faults.allRunning();
    await Promise.all([...churns, ...ledgers, passersBy].map((load) => load.stop()));
    await faults.renewNodes();
    const wrong: string[] = [];
    await expectAgreementAfterLoad(world, tenants).catch((error: unknown) =>
      wrong.push(error instanceof Error ? error.message : String(error)),
    );
    for (const ledger of ledgers) {
      wrong.push(...(await ledger.discrepancies()));
      if (ledger.size === 0) wrong.push('no object was ever confirmed: nothing is proved');
    }
    if (JSON.stringify(await calmObjects(world, tenants)) !== JSON.stringify(calm))
      wrong.push('objects that nobody touched were replaced');
    wrong.push(...(await passersBy.remains()));
    const writes = churns.reduce((sum, { done }) => sum + done, 0);
    const kept = ledgers.reduce((sum, { size }) => sum + size, 0);
    log(
      `${count} faults, ${writes} writes, ${kept} objects accounted for, ${passersBy.size} tenants came and went (${passersBy.repeats} of their steps tried again), controllers started anew ${controllerRestarts.length} times`,
    );
    return wrong;
  } finally {
    await world.close();
  }
}

async function prepare(tenant: Tenant): Promise<void> {
  await tenant.apply(
    namespace('churn'),
    namespace('ledger'),
    namespace('calm'),
    deployment('calm', 'web', 2),
    service('calm', 'web'),
  );
  await tenant.until(
    { resource: resources.pods, namespace: 'calm', what: '2 calm pods' },
    (pods) => pods.length === 2,
  );
}

async function disturb(
  faults: Faults,
  { seed, durationMs, cut, log }: Pick<ChaosOptions, 'seed' | 'durationMs' | 'cut' | 'log'>,
): Promise<number> {
  const kinds = cut === undefined ? (['kill', 'pause'] as const) : (['kill', 'pause', 'cut'] as const);
  const start = performance.now();
  let count = 0;
  for (const step of schedule(seed, faults.parts, kinds)) {
    const atMs = performance.now() - start;
    if (atMs >= durationMs) break;
    for (const { part, kind, forMs } of step.faults) {
      count += 1;
      log(
        `${(atMs / 1000).toFixed(1).padStart(6)} s  ${kind} ${part}${forMs === 0 ? '' : ` for ${forMs} ms`}`,
      );
    }
    await Promise.all(step.faults.map((fault) => faults.carryOut(fault)));
    await delay(step.thenMs);
  }
  return count;
}

/** What nobody touches, by UID, on the super cluster's side. */
async function calmObjects(world: World, tenants: readonly Tenant[]): Promise<unknown> {
  const uids = async (resource: Resource, tenant: Tenant): Promise<(string | undefined)[]> => {
    const labelSelector = `skerry.dev/tenant=${tenant.uid},skerry.dev/namespace=calm`;
    const { items } = await world.superCluster.client.list(resource, { labelSelector });
    return items.map(({ metadata }) => metadata.uid).toSorted();
  };
  return Promise.all(
    tenants.flatMap((tenant) =>
      [resources.pods, resources.services].map((resource) => uids(resource, tenant)),
    ),
  );
}
