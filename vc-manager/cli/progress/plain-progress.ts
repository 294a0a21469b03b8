import type { Clock } from '../../../kube/index.ts';
import type { Output } from '../context.ts';
import { elapsed } from '../output/time.ts';
import type { Progress, Step } from './progress.ts';

/** A message that comes again, or with other numbers only, is told this often. */
const repeatMs = 10_000;

/** Progress as lines that can be read in a file: each change once, nothing overwritten. */
export class PlainProgress implements Progress {
  readonly #output: Output;
  readonly #clock: Pick<Clock, 'monotonic'>;

  constructor(output: Output, clock: Pick<Clock, 'monotonic'>) {
    this.#output = output;
    this.#clock = clock;
  }

  step(title: string): Step {
    const start = this.#clock.monotonic();
    const told = new Map<string, number>();
    const line = (text: string): void => {
      this.#output.write(`${title}: ${text} (${elapsed(this.#clock.monotonic() - start)})\n`);
    };
    this.#output.write(`${title} ...\n`);
    return {
      tell: (message) => {
        const shape = message.replaceAll(/[\d.]+/g, '#');
        const now = this.#clock.monotonic();
        if (now - (told.get(shape) ?? Number.NEGATIVE_INFINITY) < repeatMs) return;
        told.set(shape, now);
        line(message);
      },
      done: (message) => line(message ?? 'done'),
      fail: (message) => line(message ?? 'failed'),
    };
  }

  note(message: string): void {
    this.#output.write(`${message}\n`);
  }

  close(): void {}
}
