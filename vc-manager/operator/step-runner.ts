import type { ManagerConditionType } from '../../api/conditions.ts';
import { isNotFound } from '../../kube/index.ts';
import type { Outcome } from '../jobs/index.ts';
import { explain, OperatorError, RequeueAfter } from './errors.ts';
import type { JobLog } from './jobs.ts';
import type { Services } from './services.ts';
import type { Tenant } from './tenant.ts';

/**
 * One part of making or removing a control plane. Steps run in the order of their list, may run any number
 * of times, and do only what is missing: after a crash a pass begins with the first one.
 */
export interface Step {
  readonly name: string;
  /** What people read while it runs. */
  readonly doing: string;
  /** The condition that tells how it went. A step that succeeds sets it itself, if it has more to say. */
  readonly condition?: ManagerConditionType;
  /** Throws what `explain` understands, or NotYet. */
  run(tenant: Tenant, services: Services): Promise<void>;
}

/** Rows of steps that need nothing of each other: each row in its order, the rows at once. */
export interface ParallelSteps {
  readonly rows: readonly (readonly Step[])[];
}

export type Stage = Step | ParallelSteps;

export function parallel(...rows: (readonly Step[])[]): ParallelSteps {
  return { rows };
}

/** The step that has failed, with what it has thrown as the cause. */
export class StepError extends Error {
  readonly step: Step;

  constructor(step: Step, cause: unknown) {
    super(`${step.name} has failed`, { cause });
    this.step = step;
  }
}

/**
 * Runs stages one after the other. A row that fails does not stop the rows beside it, which are short; its failure
 * is thrown when they have ended, as StepFailed.
 */
export async function runEach(
  stages: readonly Stage[],
  perform: (step: Step) => Promise<void>,
): Promise<void> {
  for (const stage of stages) {
    const rows = 'rows' in stage ? stage.rows : [[stage]];
    const results = await Promise.allSettled(rows.map((row) => runRow(row, perform)));
    for (const result of results) if (result.status === 'rejected') throw result.reason;
  }
}

async function runRow(row: readonly Step[], perform: (step: Step) => Promise<void>): Promise<void> {
  for (const step of row) {
    try {
      await perform(step);
    } catch (error) {
      throw new StepError(step, error);
    }
  }
}

export interface StepHooks {
  job: JobLog;
  before: (step: Step) => void | Promise<void>;
  /** `lasting`: trying again is of no use until somebody changes something. */
  failed: (lasting: boolean) => void;
  /** A step waits for somebody else. */
  waits?: () => void;
  done: () => Promise<Outcome>;
}

/** Runs the steps, tells what comes of them, and says what is to be done next. */
export async function runSteps(
  stages: readonly Stage[],
  tenant: Tenant,
  services: Services,
  hooks: StepHooks,
): Promise<Outcome> {
  const logger = services.logger.child({ virtualCluster: tenant.key });
  try {
    await runEach(stages, async (step) => {
      hooks.job.step(step);
      await hooks.before(step);
      tenant.signal.throwIfAborted();
      const startedAt = tenant.clock.monotonic();
      await step.run(tenant, services);
      logger.debug({ step: step.name, ms: Math.round(tenant.clock.monotonic() - startedAt) }, 'step done');
    });
    return await hooks.done();
  } catch (error) {
    if (tenant.signal.aborted) throw error;
    if (error instanceof StepError) return await fail(error.cause, error.step, tenant, services, hooks);
    return await fail(error, undefined, tenant, services, hooks);
  }
}

async function fail(
  error: unknown,
  step: Step | undefined,
  tenant: Tenant,
  services: Services,
  hooks: StepHooks,
): Promise<Outcome> {
  const logger = services.logger.child({ virtualCluster: tenant.key, step: step?.name });
  const { status } = tenant;
  try {
    if (error instanceof RequeueAfter) {
      status.condition('Ready', 'False', error.reason, error.message);
      hooks.waits?.();
      await status.flush();
      return { kind: 'done', againAfterMs: error.againAfterMs };
    }
    const { reason, message, retryable, retryAfterMs, component } = explain(error);
    logger.warn({ err: error, reason }, message);
    const condition = conditionOf(component) ?? step?.condition;
    if (condition !== undefined) status.condition(condition, 'False', reason, message);
    status.condition('Ready', 'False', reason, message);
    hooks.job.failed(message);
    hooks.failed(!retryable);
    await status.flush();
    return { kind: 'failed', ...(retryAfterMs === undefined ? {} : { retryAfterMs }) };
  } catch (telling) {
    if (tenant.signal.aborted) throw telling;
    if (isGone(telling)) return { kind: 'done' };
    logger.warn({ err: telling }, 'the status could not be written');
    return { kind: 'failed' };
  }
}

/** There is no such VirtualCluster any more, or another one has its name. */
function isGone(error: unknown): boolean {
  return isNotFound(error) || (error instanceof OperatorError && error.code === 'ObjectReplaced');
}

function conditionOf(component: string | undefined): ManagerConditionType | undefined {
  if (component === 'kube-apiserver') return 'APIServerReady';
  return component === 'kube-controller-manager' ? 'ControllerManagerReady' : undefined;
}
