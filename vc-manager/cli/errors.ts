import { exitCodes } from './exit-codes.ts';

export type CliErrorCode =
  | 'InvalidArgument'
  | 'NotFound'
  | 'NotReady'
  | 'TimedOut'
  | 'NotRunning'
  | 'AlreadyRunning'
  | 'AlreadyExists'
  | 'Conflict'
  | 'StateUnusable'
  | 'ProvisioningFailed'
  | 'StartFailed'
  | 'Interrupted';

/** A failure that is told in one sentence, which ends with what one can do. */
export class CliError extends Error {
  override readonly name = 'CliError';
  readonly code: CliErrorCode;
  readonly exitCode: number;
  readonly retryable = false;

  constructor(code: CliErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.exitCode = exitCodeOf[code];
  }
}

const exitCodeOf: Record<CliErrorCode, number> = {
  InvalidArgument: exitCodes.usage,
  NotFound: exitCodes.notFound,
  NotReady: exitCodes.failure,
  TimedOut: exitCodes.timedOut,
  NotRunning: exitCodes.unreachable,
  AlreadyRunning: exitCodes.conflict,
  AlreadyExists: exitCodes.conflict,
  Conflict: exitCodes.conflict,
  StateUnusable: exitCodes.failure,
  ProvisioningFailed: exitCodes.failure,
  StartFailed: exitCodes.failure,
  Interrupted: exitCodes.interrupted,
};

/** What the `up` in the background died of, as that one described it. */
export class BackgroundFailure extends Error {
  override readonly name = 'BackgroundFailure';
  readonly exitCode: number;
  readonly retryable = false;

  constructor(message: string, exitCode: number) {
    super(message);
    this.exitCode = exitCode;
  }
}

export function invalidArgument(message: string): CliError {
  return new CliError('InvalidArgument', message);
}

export function alreadyRunning(stateDir: string, pid: number): CliError {
  const who = pid === 0 ? 'another process' : `process ${pid}`;
  return new CliError(
    'AlreadyRunning',
    `${who} already looks after the stack in ${stateDir}: use it, stop it with "vc-manager down", ` +
      'or start a second one with --state-dir DIRECTORY',
  );
}
