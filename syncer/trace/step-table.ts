import { type PodStep, podSteps } from './steps.ts';

const width = podSteps.length;
const columns = new Map(podSteps.map((step, column) => [step, column]));

/**
 * The times of many pods' steps in one block of memory, a row for each pod: noting a step makes no garbage, and
 * rows that were never used cost nothing.
 */
export class StepTable {
  readonly #limit: number;
  /** Milliseconds; NaN: not yet. */
  readonly #times: Float32Array;
  readonly #free: number[] = [];
  #opened = 0;

  constructor(limit: number) {
    if (!(Number.isInteger(limit) && limit > 0))
      throw new RangeError(`limit is ${limit}; give a whole number of pods, 1 or more`);
    this.#limit = limit;
    this.#times = new Float32Array(limit * width);
  }

  get isFull(): boolean {
    return this.#free.length === 0 && this.#opened === this.#limit;
  }

  /** An empty row. Throws when there is none left. */
  open(): number {
    if (this.isFull) throw new RangeError('all rows are in use; close one first');
    const row = this.#free.pop() ?? this.#opened++;
    this.#times.fill(Number.NaN, row * width, (row + 1) * width);
    return row;
  }

  close(row: number): void {
    this.#free.push(row);
  }

  get(row: number, step: PodStep): number | undefined {
    const at = this.#times[row * width + (columns.get(step) as number)] as number;
    return Number.isNaN(at) ? undefined : at;
  }

  set(row: number, step: PodStep, ms: number): void {
    this.#times[row * width + (columns.get(step) as number)] = ms;
  }
}
