/** An error of a room's catalogue: a code that stays, and a message that names what one can do. */
export abstract class CodedError<Code extends string> extends Error {
  readonly code: Code;
  /** False: nothing gets better until somebody changes something. */
  readonly retryable: boolean;

  constructor(code: Code, message: string, retryable: boolean, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.retryable = retryable;
  }
}
