import type { ManagerConditionType } from '../../api/conditions.ts';
import { isNotFound } from '../../kube/index.ts';
import type { Outcome } from '../jobs/index.ts';
import { NotYet, OperatorError } from './errors.ts';
import { explain } from './explain.ts';
import type { JobLog } from './job-log.ts';
import type { Services } from './services.ts';
import { runStages, type Stage, type Step, StepFailed } from './steps/index.ts';
import type { Tenant } from './tenant.ts';

export interface Hooks {
  job: JobLog;
  before: (step: Step) => void | Promise<void>;
  /** `lasting`: trying again is of no use until somebody changes something. */
  failed: (lasting: boolean) => void;
  /** A step waits for somebody else. */
  waits?: () => void;
  done: () => Promise<Outcome>;
}

/** Runs the steps, tells what comes of them, and says what is to be done next. */
export async function perform(
  stages: readonly Stage[],
  tenant: Tenant,
  services: Services,
  hooks: Hooks,
): Promise<Outcome> {
  const logger = services.logger.child({ virtualCluster: tenant.key });
  try {
    await runStages(stages, async (step) => {
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
    if (error instanceof StepFailed) return await fail(error.cause, error.step, tenant, services, hooks);
    return await fail(error, undefined, tenant, services, hooks);
  }
}

async function fail(
  error: unknown,
  step: Step | undefined,
  tenant: Tenant,
  services: Services,
  hooks: Hooks,
): Promise<Outcome> {
  const logger = services.logger.child({ virtualCluster: tenant.key, step: step?.name });
  const { status } = tenant;
  try {
    if (error instanceof NotYet) {
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
