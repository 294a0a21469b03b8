/** A setting of the scheduling window that makes no sense; trying again cannot help. */
export class SchedulingError extends Error {
  override readonly name = 'SchedulingError';
  readonly code = 'InvalidOption';
  readonly retryable = false;
}

export function requireAtLeast(name: string, value: number, least: number): number {
  if (!(Number.isFinite(value) && value >= least)) {
    throw new SchedulingError(`${name} is ${value}; give a number of at least ${least}`);
  }
  return value;
}
