import type { ManagerConditionType } from '../../api/conditions.ts';
import { isNotFound } from '../../kube/index.ts';
import { DriverError } from '../drivers/errors.ts';
import type { ReconcileResult } from '../jobs/job-runner.ts';
import { explain, OperatorError, RequeueAfter } from './errors.ts';
import type { JobLog } from './jobs.ts';
import type { Services } from './services.ts';
import type { Tenant } from './tenant.ts';

/**
 * One part of making or removing a control plane. Steps run in the order of their list, may run any number of times,
 * and do only what is missing: after a crash the next reconcile begins with the first one.
 */
export interface Step {
  readonly name: string;
  /** Shown in the condition Ready while the step runs. */
  readonly doing: string;
  /** The condition that says how the step went. A step that succeeds sets it itself, if it has more to say. */
  readonly condition?: ManagerConditionType;
  /** Throws what `explain` understands, or RequeueAfter. */
  run(tenant: Tenant, services: Services): Promise<void>;
}

/** Rows of steps that do not depend on each other: the steps of a row in order, the rows at the same time. */
interface ParallelSteps {
  readonly rows: readonly (readonly Step[])[];
}

export type Stage = Step | ParallelSteps;

export function parallel(...rows: (readonly Step[])[]): ParallelSteps {
  return { rows };
}

export interface StepHooks<T> {
  job: JobLog;
  before: (step: Step) => void | Promise<void>;
  /** `lasting`: trying again helps only after the VirtualCluster or the manager's settings have changed. */
  failed: (lasting: boolean, error: unknown) => void | Promise<void>;
  /** A step has thrown RequeueAfter. */
  waits?: () => void;
  /** Has the status say again why the last try has failed; false: it has failed at none of these steps, or not at all. */
  keepFailure?: (ahead: readonly Step[]) => boolean;
  /** All steps have succeeded. What it throws counts as a failure without a step. */
  done: () => Promise<T>;
}

/**
 * Runs the stages one after the other, writes into the status what comes of them, and says when to come back. A row that
 * fails does not stop the rows beside it, which are short. Rejects only when the tenant's signal is aborted.
 */
export async function runSteps<T>(
  stages: readonly Stage[],
  tenant: Tenant,
  services: Services,
  hooks: StepHooks<T>,
): Promise<T | ReconcileResult> {
  const logger = services.logger.child({ virtualCluster: tenant.key });
  const runRow = async (row: readonly Step[]): Promise<{ step: Step; error: unknown } | undefined> => {
    for (const step of row) {
      try {
        hooks.job.step(step);
        await hooks.before(step);
        tenant.signal.throwIfAborted();
        const startedAt = tenant.clock.monotonic();
        await step.run(tenant, services);
        logger.debug({ step: step.name, ms: Math.round(tenant.clock.monotonic() - startedAt) }, 'step done');
      } catch (error) {
        return { step, error };
      }
    }
    return undefined;
  };
  for (const [index, stage] of stages.entries()) {
    const failures = await Promise.all(rowsOf(stage).map(runRow));
    const failure = failures.find((each) => each !== undefined);
    if (failure === undefined) continue;
    const ahead = stages.slice(index).flatMap(rowsOf).flat();
    return fail({ ...failure, ahead }, tenant, services, hooks);
  }
  try {
    return await hooks.done();
  } catch (error) {
    return fail({ error, ahead: [] }, tenant, services, hooks);
  }
}

function rowsOf(stage: Stage): readonly (readonly Step[])[] {
  return 'rows' in stage ? stage.rows : [[stage]];
}

async function fail(
  { error, step, ahead }: { error: unknown; step?: Step; ahead: readonly Step[] },
  tenant: Tenant,
  services: Services,
  hooks: Pick<StepHooks<unknown>, 'job' | 'failed' | 'waits' | 'keepFailure'>,
): Promise<ReconcileResult> {
  if (tenant.signal.aborted) throw error;
  const logger = services.logger.child({ virtualCluster: tenant.key, step: step?.name });
  const { status } = tenant;
  try {
    if (error instanceof RequeueAfter) {
      const { againAfterMs } = error;
      const isFailing = error.keepsFailures && hooks.keepFailure?.(ahead) === true;
      if (!isFailing) {
        status.condition('Ready', 'False', error.reason, error.message);
        hooks.waits?.();
      }
      await status.flush();
      return { kind: 'done', againAfterMs, ...(isFailing && { keepsFailures: true }) };
    }
    const { reason, message, retryable, retryAfterMs, component } = explain(error, tenant);
    logger.warn({ err: error, reason }, message);
    const condition = conditionOf(component) ?? step?.condition;
    if (condition !== undefined) status.condition(condition, 'False', reason, message);
    status.condition('Ready', 'False', reason, message);
    hooks.job.failed(message);
    await hooks.failed(!retryable, error);
    await status.flush();
    const maxBackoffMs = takesWorkers(error) ? longestPauseMs : undefined;
    return { kind: 'failed', retryAfterMs, maxBackoffMs };
  } catch (writeError) {
    if (tenant.signal.aborted) throw writeError;
    if (isGone(writeError)) return { kind: 'done' };
    logger.warn({ err: writeError }, 'the status could not be written');
    return { kind: 'failed' };
  }
}

/** Between two tries of what does not start. */
const longestPauseMs = 5 * 60_000;

/** Each try waits in a worker, which others need, until its programs should be ready. That they are ends the pause. */
function takesWorkers(error: unknown): boolean {
  return error instanceof DriverError && (error.code === 'NotReady' || error.code === 'KeepsExiting');
}

/** The VirtualCluster is gone, or another one has its name. */
function isGone(error: unknown): boolean {
  return isNotFound(error) || (error instanceof OperatorError && error.code === 'ObjectReplaced');
}

function conditionOf(component: string | undefined): ManagerConditionType | undefined {
  if (component === 'kube-apiserver') return 'APIServerReady';
  return component === 'kube-controller-manager' ? 'ControllerManagerReady' : undefined;
}
