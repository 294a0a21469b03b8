import { isNotFound } from '../../kube/index.ts';
import type { VirtualClusterPhase } from '../api/index.ts';
import { NotYet, OperatorError } from './errors.ts';
import { explain } from './explain.ts';
import { removalSteps } from './removal/index.ts';
import type { Services } from './services.ts';
import type { ConditionType } from './status-writer.ts';
import { provisionStages, runStages, type Stage, type Step, StepFailed } from './steps/index.ts';
import type { Tenant } from './tenant.ts';
import type { Outcome } from './work-queue.ts';

/** So many failures in a row count as lasting, whatever their kind. */
const lastingFailures = 5;

/** One pass over a VirtualCluster that is to exist: all steps, and what came of it. */
export async function provision(tenant: Tenant, services: Services, failures: number): Promise<Outcome> {
  const { status } = tenant;
  const { phase, observedGeneration } = tenant.vc.status ?? {};
  const isNew = phase === undefined || phase === 'Pending';
  const isChanged = phase === 'Failed' && observedGeneration !== tenant.vc.metadata.generation;
  if (isNew || (isChanged && !tenant.wasReady)) status.set({ phase: 'Provisioning' });
  const tellsProgress = phase !== 'Ready';
  return perform(provisionStages, tenant, services, {
    before: (step) => {
      if (tellsProgress) status.condition('Ready', 'False', 'Provisioning', step.doing);
    },
    failed: (lasting) => {
      const { generation } = tenant.vc.metadata;
      if (generation !== undefined) status.set({ observedGeneration: generation });
      if (lasting || failures + 1 >= lastingFailures)
        status.set({ phase: 'Failed' satisfies VirtualClusterPhase });
    },
    waits: () => {
      const { generation } = tenant.vc.metadata;
      status.set({
        phase: 'Pending',
        ...(generation === undefined ? {} : { observedGeneration: generation }),
      });
    },
    done: async () => {
      const { generation } = tenant.vc.metadata;
      const message = [`The API server is at ${tenant.vc.status?.endpoint}.`, ...tenant.notes].join(' ');
      status.condition('Ready', 'True', 'Available', message);
      status.set({ phase: 'Ready', ...(generation === undefined ? {} : { observedGeneration: generation }) });
      await status.flush();
      const { settings, clock } = services;
      const dueMs = (tenant.renewAt?.getTime() ?? Number.POSITIVE_INFINITY) - clock.now();
      return {
        kind: 'done',
        againAfterMs: Math.max(1_000, Math.min(settings.recheckMs, dueMs, tenant.lookAgainMs)),
      };
    },
  });
}

/** One pass over a VirtualCluster that is to go. */
export async function remove(tenant: Tenant, services: Services): Promise<Outcome> {
  const { status } = tenant;
  // Only once: what is waited for says more.
  if (tenant.vc.status?.phase !== 'Deleting') {
    status.set({ phase: 'Deleting' });
    status.condition('Ready', 'False', 'Deleting', 'The control plane and all that it has is being removed.');
  }
  return perform(removalSteps, tenant, services, {
    // The syncer learns from the phase that it has to leave.
    before: () => status.flush(),
    failed: () => {},
    done: async () => ({ kind: 'done' }),
  });
}

interface Hooks {
  before: (step: Step) => void | Promise<void>;
  /** `lasting`: trying again is of no use until somebody changes something. */
  failed: (lasting: boolean) => void;
  /** A step waits for somebody else. */
  waits?: () => void;
  done: () => Promise<Outcome>;
}

async function perform(
  stages: readonly Stage[],
  tenant: Tenant,
  services: Services,
  hooks: Hooks,
): Promise<Outcome> {
  const logger = services.logger.child({ virtualCluster: tenant.key });
  try {
    await runStages(stages, async (step) => {
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

function conditionOf(component: string | undefined): ConditionType | undefined {
  if (component === 'kube-apiserver') return 'APIServerReady';
  return component === 'kube-controller-manager' ? 'ControllerManagerReady' : undefined;
}
