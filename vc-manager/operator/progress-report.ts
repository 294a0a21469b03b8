import type { Tenant } from './tenant.ts';

const pauseMs = 1_000;

/** Shows what a long step does in the condition Ready: the latest message, each second at most, none of a short step. */
export class ProgressReport {
  readonly #tenant: Tenant;
  #message: string | undefined;
  #writing: Promise<void> | undefined;
  readonly #end = new AbortController();

  constructor(tenant: Tenant) {
    this.#tenant = tenant;
  }

  tell(message: string): void {
    this.#message = message;
    if (!this.#end.signal.aborted) this.#writing ??= this.#write();
  }

  /** From then on nothing is written any more. */
  async end(): Promise<void> {
    this.#end.abort();
    this.#message = undefined;
    await this.#writing;
  }

  async #write(): Promise<void> {
    const { status, clock, signal } = this.#tenant;
    try {
      while (this.#message !== undefined) {
        await clock.sleep(pauseMs, AbortSignal.any([signal, this.#end.signal]));
        status.condition('Ready', 'False', 'Provisioning', this.#message);
        this.#message = undefined;
        await status.flush();
      }
    } catch {
      // What is really wrong shows in the step itself.
    } finally {
      this.#writing = undefined;
    }
  }
}
