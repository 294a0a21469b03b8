import { randomUUID } from 'node:crypto';
import type { JobStatus } from '../../api/job-status.ts';
import { atStep, beginJob, failAttempt, isSameJob, replaceJob, succeedJob } from '../jobs/index.ts';
import type { WantedJob } from './job-kind.ts';
import type { Services } from './services.ts';
import type { Step } from './steps/index.ts';
import type { Tenant } from './tenant.ts';

/**
 * Notes in the status how a job goes. Nothing is written for its own sake: what it notes goes with what the pass writes
 * in any case.
 */
export class JobLog {
  readonly #tenant: Tenant;
  readonly #services: Services;
  readonly #isJob: boolean;
  /** Where this pass has come to. */
  #step: Step | undefined;

  /** `isChoosing`: the leader only prepares it; whoever does it begins it. */
  constructor(tenant: Tenant, services: Services, wanted: WantedJob, isChoosing = false) {
    this.#tenant = tenant;
    this.#services = services;
    this.#isJob = wanted.kind !== 'look';
    const { kind, target } = wanted;
    const now = this.#now();
    if (kind === 'look') {
      // Left of what is not wanted any more.
      if (tenant.vc.status?.jobs?.current !== undefined) this.#set((jobs) => replaceJob(jobs, now));
      return;
    }
    if (isChoosing) return;
    const { identity, begun } = services;
    const { current } = tenant.vc.status?.jobs ?? {};
    const isSame = current !== undefined && isSameJob(current, { kind, target });
    const id = isSame ? current.id : randomUUID().slice(0, 13);
    const continues = isSame && current.failing !== true && begun.has(id);
    begun.add(id);
    this.#set((jobs) => beginJob(jobs, { kind, target, id, holder: identity, now, continues }));
  }

  step(step: Step): void {
    const now = this.#now();
    this.#step = step;
    // What is written together is the last of them: a pass that comes to where one was before changes nothing.
    if (this.#isJob) this.#set((jobs) => atStep(jobs, this.#step ?? step, now));
    this.#tenant.onStep?.(step);
  }

  failed(message: string): void {
    if (!this.#isJob) return;
    this.#services.begun.delete(this.#tenant.vc.status?.jobs?.current?.id ?? '');
    this.#set((jobs) => failAttempt(jobs, message));
  }

  succeeded(): void {
    if (!this.#isJob) return;
    const now = this.#now();
    this.#services.begun.delete(this.#tenant.vc.status?.jobs?.current?.id ?? '');
    this.#set((jobs) => succeedJob(jobs, now));
  }

  #now(): Date {
    return new Date(this.#services.clock.now());
  }

  #set(change: (jobs: JobStatus | undefined) => JobStatus): void {
    this.#tenant.status.set((status) => ({ ...status, jobs: change(status.jobs) }));
  }
}
