import {
  ApiError,
  CodedError,
  ConnectionError,
  isAlreadyExists,
  isForbidden,
  isNotFound,
  isUnauthorized,
  KubeconfigError,
  messageOf,
} from '../../kube/index.ts';

/** How a command ended, for scripts. Documented in docs/cli.md; never renumbered. */
export const exitCodes = {
  ok: 0,
  failure: 1,
  /** Wrong arguments, also names that Kubernetes would refuse. */
  usage: 2,
  notFound: 3,
  timedOut: 4,
  /** The super cluster does not answer. */
  unreachable: 5,
  /** It exists already, or another process holds it. */
  conflict: 6,
  /** The super cluster rejects the credentials, or they lack a permission. */
  forbidden: 7,
  interrupted: 130,
} as const;

type CliErrorCode =
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
  | 'Forbidden'
  | 'Interrupted';

/** A failure with a message for the user: what happened, and what to do. */
export class CliError extends CodedError<CliErrorCode> {
  override readonly name = 'CliError';
  readonly exitCode: number;

  constructor(code: CliErrorCode, message: string, options?: ErrorOptions) {
    super(code, message, false, options);
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
  Forbidden: exitCodes.forbidden,
  Interrupted: exitCodes.interrupted,
};

/** The failure of an `up` in the background, with that process's own message. */
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

/** True when the API server does not know the resource at all: the 404 then has no Status, or one that names no object. */
export function isMissingResource(error: ApiError): boolean {
  if (!isNotFound(error)) return false;
  return error.status === undefined || /could not find the requested resource/.test(error.message);
}

interface Failure {
  /** Without a final newline; several lines only where the error itself has them. */
  message: string;
  exitCode: number;
}

/** The one place where errors become a message and an exit code. */
export function describeFailure(error: unknown): Failure {
  if (error instanceof CliError || error instanceof BackgroundFailure)
    return { message: error.message, exitCode: error.exitCode };
  if (error instanceof ConnectionError) {
    return {
      message: `the super cluster does not answer: ${error.message}. "vc-manager up" starts a local one; --kubeconfig names another`,
      exitCode: exitCodes.unreachable,
    };
  }
  if (error instanceof KubeconfigError) return { message: error.message, exitCode: exitCodes.failure };
  if (error instanceof ApiError) return describeApiError(error);
  return { message: messageOf(error), exitCode: exitCodes.failure };
}

function describeApiError(error: ApiError): Failure {
  if (isMissingResource(error)) {
    return {
      message:
        'this cluster does not know VirtualClusters: Skerry is not installed in it. ' +
        'Install the Helm chart in it, start "vc-manager operator" or "vc-manager up --super-kubeconfig FILE" for it, ' +
        'or name another cluster with --kubeconfig',
      exitCode: exitCodes.notFound,
    };
  }
  const said = error.status?.message ?? error.message;
  if (isUnauthorized(error)) {
    return {
      message: `the super cluster does not accept these credentials (${said}): use another kubeconfig or context`,
      exitCode: exitCodes.forbidden,
    };
  }
  if (isForbidden(error)) return { message: said, exitCode: exitCodes.forbidden };
  if (isNotFound(error)) return { message: said, exitCode: exitCodes.notFound };
  if (isAlreadyExists(error)) return { message: said, exitCode: exitCodes.conflict };
  return { message: said, exitCode: exitCodes.failure };
}
