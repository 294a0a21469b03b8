import { isPaused } from '../../../api/tenant-state.ts';
import type { VirtualCluster, VirtualClusterStatus } from '../../../api/virtual-cluster.ts';
import type { WriteStop } from '../../control-plane/authorizers.ts';
import { isFilledIn } from '../../control-plane/template.ts';
import { EtcdError } from '../../etcd/errors.ts';
import { inMiB } from '../errors.ts';
import type { Services } from '../services.ts';
import { hasPhaseAsleep } from '../sleep.ts';
import type { Step } from '../step-runner.ts';
import type { Tenant } from '../tenant.ts';
import { datastoreLimits } from '../tenant-keys.ts';
import { hasOwnDatastore } from './address.ts';

type Usage = NonNullable<VirtualClusterStatus['datastoreUsage']>;
type Size = Pick<Usage, 'keys' | 'bytes'>;

/**
 * Measures what the tenant's own objects take in the etcd of all tenants, which refuses all writes once it is
 * full, and decides whether its API server may add to it. The step `control-plane` carries that out.
 */
export const datastoreUsage: Step = {
  name: 'datastore-usage',
  doing: 'Measuring what it takes in the datastore',
  async run(tenant, services) {
    const { status } = tenant.vc;
    if (hasOwnDatastore(tenant.required(tenant.choice, 'template'))) {
      // Whatever it fills is its own.
      if (status?.datastoreUsage !== undefined) tenant.status.set(withoutUsage);
      tenant.status.dropCondition('DatastoreWithinQuota');
      return;
    }
    const known = status?.datastoreUsage;
    // All tenants wait for it.
    if (isPaused(tenant.vc)) return;
    const usage = (await measure(tenant, services, known)) ?? known;
    if (usage === undefined) return;
    const limits = datastoreLimits(tenant.vc);
    const before = writeStopOf(tenant.vc);
    const now = services.clock.now();
    const stoppedMs = before === 'none' ? now : Date.parse(status?.datastoreUsage?.stoppedSince ?? '');
    const isRested = !(now - stoppedMs < restMs);
    const share = before === 'none' ? 1 : isRested ? resumeShare : roomyShare;
    const writesStopped = isOver(usage, limits, share);
    const sealed = writesStopped && isOver(usage, limits, before === 'sealed' ? 1 : sealShare);
    const { keys, bytes, measured } = usage;
    tenant.status.set({
      datastoreUsage: {
        ...{ keys, bytes, measured },
        ...(writesStopped && { writesStopped }),
        ...(writesStopped &&
          Number.isFinite(stoppedMs) && { stoppedSince: new Date(stoppedMs).toISOString() }),
        ...(sealed && { sealed }),
      },
    });
    report(tenant, usage, limits, writesStopped);
    // A reader sees why before the API server is restarted.
    if (before !== (sealed ? 'sealed' : writesStopped ? 'stopped' : 'none')) await tenant.status.flush();
    if (writesStopped) tenant.lookAgainMs = Math.min(tenant.lookAgainMs, stoppedPauseMs);
  },
};

/** What was decided last. */
export function writeStopOf({ status }: VirtualCluster): WriteStop {
  const { writesStopped, sealed } = status?.datastoreUsage ?? {};
  if (writesStopped !== true) return 'none';
  return sealed === true ? 'sealed' : 'stopped';
}

function withoutUsage({ datastoreUsage: _, ...status }: VirtualClusterStatus): VirtualClusterStatus {
  return status;
}

/** Nothing is resumed before there is room again, or each write would stop the next. */
const resumeShare = 0.9;
/** Nor soon after it was stopped, unless there is much: each time its API server is started anew. */
const restMs = 10 * 60_000;
const roomyShare = 0.6;
const warnShare = 0.8;
/** Writes are stopped, and it grows all the same. */
const sealShare = 1.5;
const stoppedPauseMs = 5_000;
const pauseMs = 10 * 60_000;
const afterWakeMs = 1_000;

/** Undefined when it is not due, or cannot be measured now. */
async function measure(
  tenant: Tenant,
  { datastore, datastoreGrowth, clock, logger }: Services,
  known: Usage | undefined,
): Promise<Usage | undefined> {
  // Nothing is there yet.
  if (!tenant.wasReady) return undefined;
  // A client waits for its API server, and all that it has would be read before. Nothing was written while it slept.
  if (hasPhaseAsleep(tenant.vc)) {
    tenant.lookAgainMs = Math.min(tenant.lookAgainMs, afterWakeMs);
    return undefined;
  }
  const { signal } = tenant;
  const now = clock.now();
  try {
    const keys = await datastore.countTenantKeys(tenant.id, { signal });
    const due = known === undefined ? 0 : dueMs(known, keys, datastoreGrowth.sinceMs);
    if (now < due) {
      tenant.lookAgainMs = Math.min(tenant.lookAgainMs, due - now);
      return undefined;
    }
    const limit = datastoreLimits(tenant.vc).bytes;
    const size = await datastore.measureTenant(tenant.id, 2 * limit, { signal });
    return { ...size, bytes: Math.ceil(size.bytes), measured: new Date(clock.now()).toISOString() };
  } catch (error) {
    if (signal.aborted || !(error instanceof EtcdError)) throw error;
    // The decision of last time holds: a datastore in trouble is no reason to stop a tenant, or to let one go on.
    logger.warn({ virtualCluster: tenant.key }, `its datastore usage cannot be measured: ${error.message}`);
    return undefined;
  }
}

/** A measurement reads all that the tenant has: the more that is, the more rarely it is done. */
export function dueMs(known: Usage, keys: number, growthMs: number): number {
  const last = Date.parse(known.measured);
  const readMs = (known.bytes / (4 * 1024 ** 2)) * 1000;
  const hasChanged = Math.abs(keys - known.keys) > Math.max(100, known.keys / 10);
  if (known.writesStopped === true) {
    return last + Math.max(stoppedPauseMs, hasChanged ? 0 : readMs);
  }
  if (hasChanged) return 0;
  // One tenant that writes a lot has all tenants measured: large ones no more often than their reading allows.
  if (growthMs > last) return last + readMs;
  return last + Math.max(pauseMs, (known.bytes / 1024 ** 2) * 1000);
}

function isOver(usage: Size, limits: Size, share: number): boolean {
  return usage.keys > limits.keys * share || usage.bytes > limits.bytes * share;
}

function report(tenant: Tenant, usage: Size, limits: Size, writesStopped: boolean): void {
  const { status } = tenant;
  const type = 'DatastoreWithinQuota';
  const what = `${usage.keys} keys of ${shown(limits.keys)} and ${mebibytes(usage.bytes)} of ${mebibytes(limits.bytes)} in the datastore`;
  const remedy = 'Delete objects, or have spec.quota (datastore.keys, datastore.bytes) raised.';
  const choice = tenant.required(tenant.choice, 'template');
  if (writesStopped && isFilledIn(choice, 'authorization-config', '${authorizers}')) {
    status.condition(
      type,
      'False',
      'WritesStopped',
      `It has ${what}: its API server refuses to create and change objects until it has less than ${resumeShare * 100} % of that after ${restMs / 60_000} minutes, or less than ${roomyShare * 100} %. ${remedy}`,
    );
  } else if (writesStopped) {
    const { name } = choice.template.metadata;
    status.condition(
      type,
      'False',
      'OverQuota',
      `It has ${what}, and nothing stops it: the template ${name} has no argument authorization-config with a file that uses \${authorizers}. ${remedy}`,
    );
  } else if (isOver(usage, limits, warnShare)) {
    status.condition(
      type,
      'True',
      'NearQuota',
      `It has ${what}. Beyond that only deleting is possible. ${remedy}`,
    );
  } else {
    status.condition(type, 'True', 'Enough', `It has less than ${warnShare * 100} % of its datastore quota.`);
  }
}

function shown(value: number): string {
  return Number.isFinite(value) ? String(Math.floor(value)) : 'any number';
}

function mebibytes(bytes: number): string {
  return Number.isFinite(bytes) ? inMiB(bytes) : 'any size';
}
