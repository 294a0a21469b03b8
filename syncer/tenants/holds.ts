import { annotationKeys } from '../../api/labels.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { findCondition, type ObjectRef } from '../../kube/index.ts';
import type { DeletionHold } from '../reconcile/guards.ts';
import type { TenantState } from '../reconcile/tenant-state.ts';
import { annotate } from './answers.ts';
import type { StatusWriter } from './status-writer.ts';

export interface HoldsOptions {
  state: TenantState;
  status: StatusWriter;
  vc: VirtualCluster;
  /** Queues everything of the tenant again. */
  requeue: () => void;
}

/**
 * Says in a condition that too many deletions at once are held back (sync rule 0 C), takes the operator's
 * answer, and lets go when nothing is held any more.
 */
export class Holds {
  readonly #options: HoldsOptions;
  readonly #ref: ObjectRef;
  /** Whether the condition says so, here or from an earlier syncer. */
  #isSaid: boolean;

  constructor(options: HoldsOptions) {
    this.#options = options;
    const { namespace, name = '' } = options.vc.metadata;
    this.#ref = { namespace, name };
    this.#isSaid = findCondition(options.vc.status?.conditions, 'DeletionHeld')?.status === 'True';
  }

  /** A mass-deletion guard has closed. */
  async say(signal?: AbortSignal): Promise<void> {
    const { state, status } = this.#options;
    const questions = [
      question(
        state.superDeletions.hold,
        'are missing in its API server, or synced no longer by a changed setting,',
        this.#ref,
      ),
      question(state.tenantDeletions.hold, 'have lost what runs for them in the super cluster', this.#ref),
    ].filter((text) => text !== undefined);
    if (questions.length === 0) return;
    this.#isSaid = true;
    const message = questions.join('. ');
    const wanted = { type: 'DeletionHeld', status: 'True', reason: 'TooManyAtOnce', message } as const;
    await status.condition(this.#ref, state.info.uid, wanted, signal);
  }

  /** Reads the operator's answer from the annotations of the VirtualCluster. */
  async answer(vc: VirtualCluster, signal: AbortSignal): Promise<void> {
    const { superDeletions: deletions, tenantDeletions: losses } = this.#options.state;
    const id = vc.metadata.annotations?.[annotationKeys.confirmDeletions];
    if (id === undefined) return;
    const opened = [deletions.confirm(id), losses.confirm(id)];
    if (opened.includes(true)) await this.recheck(signal);
  }

  /** Called on a clock: what was missing may be back. */
  async recheck(signal: AbortSignal): Promise<void> {
    const { state } = this.#options;
    const { superDeletions: deletions, tenantDeletions: losses } = state;
    if (state.frozen !== undefined) return;
    const isAsked = this.#isSaid || deletions.hold !== undefined || losses.hold !== undefined;
    if (isAsked) {
      const isOpen = [deletions.allowsUnwatched(), losses.allowsUnwatched()];
      if (isOpen.includes(false)) return this.say(signal);
    }
    // Whatever closed the guard, nothing does now: nobody else would look at these again.
    if (state.held.size > 0) this.#options.requeue();
    if (this.#isSaid) await this.#release(signal);
  }

  async #release(signal: AbortSignal): Promise<void> {
    const { state, status } = this.#options;
    const message = 'no deletion is held back';
    const wanted = { type: 'DeletionHeld', status: 'False', reason: 'Released', message } as const;
    await status.condition(this.#ref, state.info.uid, wanted, signal);
    this.#isSaid = false;
  }
}

function question(hold: DeletionHold | undefined, what: string, vc: ObjectRef): string | undefined {
  if (hold === undefined) return undefined;
  return `${hold.missing} of ${hold.total} objects of this tenant ${what} although nobody was seen deleting them; they are kept. If they are meant to go: ${annotate(vc, annotationKeys.confirmDeletions, hold.id)}`;
}
