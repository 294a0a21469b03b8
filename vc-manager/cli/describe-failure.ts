import {
  ApiError,
  ConnectionError,
  isAlreadyExists,
  isForbidden,
  isNotFound,
  isUnauthorized,
  KubeconfigError,
} from '../../kube/index.ts';
import { BackgroundFailure, CliError } from './errors.ts';
import { exitCodes } from './exit-codes.ts';
import { isMissingResource } from './is-missing-resource.ts';

export interface Failure {
  /** Without a final newline; several lines only where the error itself has them. */
  message: string;
  exitCode: number;
}

/** The one place where errors of all rooms become a sentence and an exit code. */
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
  if (error instanceof ApiError) return describeAnswer(error);
  return { message: error instanceof Error ? error.message : String(error), exitCode: exitCodes.failure };
}

function describeAnswer(error: ApiError): Failure {
  if (isMissingResource(error)) {
    return {
      message:
        'this cluster does not know VirtualClusters: Skerry is not installed in it. ' +
        'Start "vc-manager operator" or "vc-manager up --super-kubeconfig FILE" for it, or name another cluster with --kubeconfig',
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
