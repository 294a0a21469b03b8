import { type KubeClient, type KubeObject, type ObjectRef, resources } from '../../kube/index.ts';
import type { TenantState } from '../engine/index.ts';
import type { StatusWriter } from './status-writer.ts';
import { answers, type VirtualCluster } from './virtual-cluster.ts';

export interface FreezeOptions {
  state: TenantState;
  status: StatusWriter;
  vc: ObjectRef;
  /** Queues everything of the tenant again. */
  requeue: () => void;
}

/**
 * Stops a tenant's deletes while its server is not who it should be, or while too many objects would go
 * at once, says so in a condition with the remedy, and goes on when the operator has answered.
 */
export class Freeze {
  readonly #options: FreezeOptions;
  /** The answer that would lift the present mismatch. */
  #token: string | undefined;
  /** Highest resourceVersion that the tenant's server has shown. */
  #highest = 0n;

  constructor(options: FreezeOptions) {
    this.#options = options;
  }

  observeResourceVersion(version: string): void {
    const number = parse(version);
    if (number !== undefined && number > this.#highest) this.#highest = number;
  }

  /**
   * Before a list replaces what the cache holds: throws if it comes from another server than the one
   * this tenant had, or from the past of that server. Servers may answer a list slightly late from
   * memory, so that an old version is believed only when a consistent read confirms it.
   */
  async checkList(version: string, signal: AbortSignal): Promise<void> {
    const { state } = this.#options;
    if (!(await state.identity.verify())) {
      await this.mismatch('tenant', signal);
      throw new Error('the API server of this tenant is not the one that it had');
    }
    const listed = parse(version);
    if (listed === undefined || listed >= this.#highest) return;
    const consistent = await state.client.list(resources.namespaces, { limit: 1, signal });
    const now = parse(consistent.metadata.resourceVersion ?? '');
    if (now === undefined || now >= this.#highest) return;
    await this.#backwards(now, signal);
    throw new Error('the resourceVersion of this tenant ran backwards');
  }

  async mismatch(side: 'tenant' | 'super', signal?: AbortSignal): Promise<void> {
    const { state } = this.#options;
    if (side === 'super') {
      await this.#stop(
        'SuperClusterIdentity',
        'the super cluster is not the one that this syncer started with; deletes are stopped. Start the syncer again with the right kubeconfig',
        undefined,
        signal,
      );
      return;
    }
    const found = await kubeSystemUid(state.client, signal);
    const what =
      found === undefined
        ? 'the tenant has no kube-system Namespace'
        : `the tenant's kube-system Namespace has UID ${found}, not ${state.identity.expectedUid}`;
    const remedy =
      found === undefined
        ? 'restore its data'
        : `restore its data, or accept it as it is now: ${annotate(this.#options.vc, answers.acceptIdentity, found)}`;
    await this.#stop('TenantIdentity', `${what}; all deletes for it are stopped. Either ${remedy}`, found, signal);
  }

  /** The mass-deletion guard has closed. */
  async held(signal?: AbortSignal): Promise<void> {
    const { state, status, vc } = this.#options;
    const { hold } = state.deletions;
    if (hold === undefined) return;
    await status.condition(
      vc,
      state.info.uid,
      {
        type: 'DeletionHeld',
        status: 'True',
        reason: 'TooManyAtOnce',
        message: `${hold.missing} of ${hold.total} objects of this tenant are missing in its API server although nobody was seen deleting them; they are kept. If they are meant to go: ${annotate(vc, answers.confirmDeletions, hold.id)}`,
      },
      signal,
    );
  }

  /** Reads the operator's answers from the annotations of the VirtualCluster. */
  async answer(vc: VirtualCluster, signal: AbortSignal): Promise<void> {
    const { state, status } = this.#options;
    const accepted = vc.metadata.annotations?.[answers.acceptIdentity];
    if (state.frozen !== undefined && this.#token !== undefined && accepted === this.#token) {
      const uid = await kubeSystemUid(state.client, signal);
      if (uid !== undefined) {
        await status.identity(this.#options.vc, state.info.uid, uid, signal);
        state.identity.accept(uid);
        this.#highest = 0n;
        await this.#goOn(signal);
      }
    }
    const confirmed = vc.metadata.annotations?.[answers.confirmDeletions];
    if (confirmed !== undefined && state.deletions.confirm(confirmed)) {
      await this.#released(signal);
      this.#options.requeue();
    }
  }

  /** Called on a clock: a wrong server may have been a passing mistake, and a held pass may have shrunk. */
  async recheck(signal: AbortSignal): Promise<void> {
    const { state } = this.#options;
    if (state.frozen !== undefined && this.#token?.includes('@') !== true && (await state.identity.verify())) {
      await this.#goOn(signal);
    }
    if (state.deletions.hold !== undefined && state.deletions.allowsUnwatched()) {
      await this.#released(signal);
      this.#options.requeue();
    }
  }

  async #backwards(now: bigint, signal: AbortSignal): Promise<void> {
    const uid = this.#options.state.identity.expectedUid;
    const token = `${uid}@${now}`;
    if (this.#token?.startsWith(`${uid}@`) === true && this.#options.state.frozen !== undefined) return;
    await this.#stop(
      'ResourceVersionRanBackwards',
      `the tenant's API server shows data that is older (${now}) than what it has shown before (${this.#highest}); all deletes for it are stopped. Restore its data, or accept it as it is now: ${annotate(this.#options.vc, answers.acceptIdentity, token)}`,
      token,
      signal,
    );
  }

  async #stop(reason: string, message: string, token: string | undefined, signal?: AbortSignal): Promise<void> {
    const { state, status, vc } = this.#options;
    state.frozen = reason;
    this.#token = token;
    // What was seen while the server was wrong proves nothing.
    state.tombstones.tenant.clear();
    await status.condition(vc, state.info.uid, { type: 'IdentityMismatch', status: 'True', reason, message }, signal);
  }

  async #goOn(signal: AbortSignal): Promise<void> {
    const { state, status, vc } = this.#options;
    state.frozen = undefined;
    this.#token = undefined;
    await status.condition(
      vc,
      state.info.uid,
      { type: 'IdentityMismatch', status: 'False', reason: 'Verified', message: 'both sides are who they should be' },
      signal,
    );
    this.#options.requeue();
  }

  async #released(signal: AbortSignal): Promise<void> {
    const { state, status, vc } = this.#options;
    await status.condition(
      vc,
      state.info.uid,
      { type: 'DeletionHeld', status: 'False', reason: 'Released', message: 'no deletion is held back' },
      signal,
    );
  }
}

async function kubeSystemUid(client: KubeClient, signal: AbortSignal | undefined): Promise<string | undefined> {
  const options = signal === undefined ? {} : { signal };
  const found = await client.list<KubeObject>(resources.namespaces, {
    fieldSelector: 'metadata.name=kube-system',
    ...options,
  });
  return found.items[0]?.metadata.uid;
}

function annotate(vc: ObjectRef, key: string, value: string): string {
  return `kubectl annotate --overwrite virtualcluster ${vc.name} -n ${vc.namespace} ${key}=${value}`;
}

function parse(version: string): bigint | undefined {
  return /^\d+$/.test(version) ? BigInt(version) : undefined;
}
