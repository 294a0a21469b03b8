import { InProcessRunner, type Job, type JobRunner, type Outcome, WorkQueue } from '../jobs/index.ts';
import { explain } from './explain.ts';
import { wantedJob } from './job-kind.ts';
import type { Leadership } from './leading.ts';
import { keyOf, onVirtualCluster } from './on-virtual-cluster.ts';
import type { OperatorOptions } from './options.ts';
import type { Services } from './services.ts';
import { isUnsettled } from './settle.ts';
import type { Sharing } from './sharing.ts';
import { choosingPass, tenantPass } from './tenant-pass.ts';

export interface TermOptions {
  services: Services;
  leadership: Leadership;
  connect: OperatorOptions['connect'];
  /** Absent: this manager does everything itself. */
  sharing: Sharing | undefined;
}

/** One term of leadership: decides what is wanted for each VirtualCluster, and has it done. */
export class Term {
  readonly #o: TermOptions;
  readonly #runner: JobRunner;

  constructor(options: TermOptions) {
    this.#o = options;
    const { services, leadership, connect, sharing } = options;
    this.#runner =
      sharing?.runner ??
      new InProcessRunner({
        parallel: services.settings.parallel,
        handle: (job, run) => tenantPass(job, { ...run, services, fence: leadership, connect }),
      });
  }

  /** Works until aborted. What is watched has to be known by then. */
  async run(signal: AbortSignal): Promise<void> {
    const { virtualClusters, policies, templates, driver, logger, clock, random } = this.#o.services;
    const queue = new WorkQueue({
      parallel: this.#runner.parallel,
      clock,
      random,
      handle: (key, pass, failures) => this.#handle(key, pass, failures),
    });
    const lookAtAll = (): void => {
      for (const vc of virtualClusters.list()) queue.add(keyOf(vc));
    };
    const stopWatching = [
      virtualClusters.subscribe((event) => onVirtualCluster(event, queue, this.#o.services, signal)),
      // An edited template changes what its control planes should be.
      templates.subscribe(({ type }) => {
        if (type === 'modified') lookAtAll();
      }),
      // What is under way may have been allowed by the policy as it was.
      policies.subscribe(() => {
        for (const vc of virtualClusters.list()) queue.interrupt(keyOf(vc));
      }),
      driver.watch((id, component, what) => {
        if (what === 'exited') logger.warn({ id, component }, `${component} has exited`);
        for (const vc of virtualClusters.byIndex('id', id)) {
          if (what === 'exited') queue.add(keyOf(vc));
          else if (what === 'ready') queue.hurry(keyOf(vc));
        }
      }),
    ];
    // What was there before this term began.
    for (const vc of virtualClusters.list())
      onVirtualCluster({ type: 'added', object: vc, watched: false }, queue, this.#o.services, signal);
    try {
      await queue.run(signal);
    } finally {
      for (const stop of stopWatching) stop();
    }
  }

  async #handle(key: string, signal: AbortSignal, failures: number): Promise<Outcome> {
    const { services, leadership, connect, sharing } = this.#o;
    const [namespace = '', name = ''] = key.split('/');
    const vc = services.virtualClusters.get({ namespace, name });
    if (vc === undefined) return { kind: 'done' };
    const { kind } = wantedJob(vc, services);
    const job: Job = { key, uid: vc.metadata.uid ?? '', kind, failures };
    if (sharing === undefined) return this.#runner.carryOut(job, signal);
    if (isUnsettled(vc) || kind === 'look') {
      // Others who work have no part in this: what is renewed is handed to the syncers by the one that leads.
      await services
        .managerPki()
        .catch((error: unknown) => services.logger.warn({ err: error }, explain(error).message));
      return sharing.runner.here(job, signal);
    }
    if (kind === 'provision' && vc.status?.serviceCIDR === undefined) {
      // Nobody else works on it yet: it was never offered.
      const outcome = await choosingPass(job, { services, fence: leadership, connect, signal });
      if (outcome !== undefined) return outcome;
    }
    return this.#runner.carryOut(job, signal);
  }
}
