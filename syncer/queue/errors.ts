export type QueueErrorCode = 'InvalidOption' | 'NotProcessing' | 'AlreadyRunning';

/** A mistake in how the queue is used; trying again cannot help. */
export class QueueError extends Error {
  override readonly name = 'QueueError';
  readonly code: QueueErrorCode;
  readonly retryable = false;

  constructor(code: QueueErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}

export function requirePositive(name: string, value: number): number {
  if (!(Number.isFinite(value) && value > 0)) {
    throw new QueueError('InvalidOption', `${name} is ${value}; give a number above 0`);
  }
  return value;
}

export function requireCount(name: string, value: number): number {
  if (!(Number.isInteger(value) && value >= 1)) {
    throw new QueueError('InvalidOption', `${name} is ${value}; give a whole number, 1 or more`);
  }
  return value;
}
