import { type Clock, elapsedMs, type Instant } from '../../kube/index.ts';
import { LeaseLapsed } from './errors.ts';

export interface FenceOptions {
  /** How long after a renewal was sent nobody else can have taken over; less than others wait. */
  windowMs: number;
  clock: Clock;
  /** A write was refused. */
  onRefused?: () => void;
}

/** Lets writes out only while this replica surely has what it serves. Closed at first, and closes by itself. */
export class Fence {
  readonly windowMs: number;
  readonly #clock: Clock;
  readonly #onRefused: (() => void) | undefined;
  #renewedAt: Instant | undefined;

  constructor({ windowMs, clock, onRefused }: FenceOptions) {
    this.windowMs = windowMs;
    this.#clock = clock;
    this.#onRefused = onRefused;
  }

  get isOpen(): boolean {
    return this.#renewedAt !== undefined && elapsedMs(this.#renewedAt, this.#clock) < this.windowMs;
  }

  /** Open for one window from when that renewal was sent. */
  open(renewedAt: Instant): void {
    this.#renewedAt = renewedAt;
  }

  close(): void {
    this.#renewedAt = undefined;
  }

  /** For `beforeWrite` of a connection. Throws LeaseLapsed when closed. */
  check(): void {
    if (this.isOpen) return;
    this.#onRefused?.();
    throw new LeaseLapsed();
  }
}
