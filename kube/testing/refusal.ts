import type { Status, StatusCause } from '../errors.ts';

/** Thrown by a fake's handler: becomes the Status that the client gets. */
export class Refusal extends Error {
  readonly status: Status & { code: number };

  constructor(
    code: number,
    reason: string,
    message: string,
    details: { kind?: string; causes?: StatusCause[]; retryAfterSeconds?: number } = {},
  ) {
    super(message);
    this.status = {
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Failure',
      message,
      reason,
      code,
      ...(Object.keys(details).length === 0 ? {} : { details }),
    };
  }
}

export const refusals = {
  /** `kind`: plural of what is not there. */
  notFound: (what: string, kind?: string): Refusal =>
    new Refusal(404, 'NotFound', `${what} not found`, kind === undefined ? {} : { kind }),
  alreadyExists: (what: string): Refusal => new Refusal(409, 'AlreadyExists', `${what} already exists`),
  conflict: (what: string): Refusal =>
    new Refusal(409, 'Conflict', `Operation cannot be fulfilled on ${what}: the object has been modified`),
  invalid: (message: string): Refusal => new Refusal(422, 'Invalid', message),
  badRequest: (message: string): Refusal => new Refusal(400, 'BadRequest', message),
  expired: (): Refusal => new Refusal(410, 'Expired', 'too old resource version'),
  tooLarge: (asked: number, current: number): Refusal =>
    new Refusal(504, 'Timeout', `Too large resource version: ${asked}, current: ${current}`, {
      causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
      retryAfterSeconds: 1,
    }),
};
