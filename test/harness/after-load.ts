import type { TaskMeta } from 'vitest';
import { Disagreement } from './checker/checker.ts';
import { patienceMs, poll } from './poll.ts';
import { componentProcess, kill, type ProcessIdentity } from './processes.ts';
import type { Tenant, World } from './world.ts';

/** Ends a component with SIGKILL and resolves when it runs again. */
export async function killed(world: World, component: string, tenant?: Tenant): Promise<ProcessIdentity> {
  const before = await world.process(component, tenant);
  await kill(before);
  return poll(`${component} to be started again`, async () => {
    const now = await componentProcess(world.stateDir, tenant ?? 'stack', component);
    return now !== undefined && now.pid !== before.pid ? now : undefined;
  });
}

/** The endpoints that were missing, for each time that controllers of Kubernetes were started anew. */
export const controllerRestarts: (readonly string[])[] = [];

declare module 'vitest' {
  interface TaskMeta {
    /** The closing lines of `npm test` name them. */
    secondTries?: string[];
  }
}

/** For the test that looks at `controllerRestarts`. */
export function reportControllerRestarts(meta: TaskMeta): void {
  meta.secondTries = controllerRestarts.map(
    (endpoints) => `started the controllers of Kubernetes anew, for ${endpoints.length} endpoints`,
  );
}

/**
 * Both sides agree; whoever lost a server asks for it ever more rarely. Where nothing but endpoints is missing when the
 * time is up, the controllers of Kubernetes are begun anew, on both sides: the one for endpoints waits up to 1,000 s after
 * errors in a row, which Services that come and go under one name give it ("informer cache is out of date"). Takes twice
 * the time at the most, and is counted (`controllerRestarts`).
 */
export async function expectAgreementAfterLoad(world: World, tenants: readonly Tenant[]): Promise<void> {
  try {
    await world.expectAgreement(tenants, patienceMs);
  } catch (error) {
    const isEndpoints = (difference: string): boolean => difference.includes(': ready endpoints: ');
    if (!(error instanceof Disagreement) || !error.differences.every(isEndpoints)) throw error;
    controllerRestarts.push(error.differences);
    console.log(
      `started the controllers of Kubernetes anew after load, for ${error.differences.length} endpoints`,
    );
    await Promise.all([undefined, ...tenants].map((of) => killed(world, 'kube-controller-manager', of)));
    await world.expectAgreement(tenants, patienceMs);
  }
}
