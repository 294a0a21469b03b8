import { type ApiError, isNotFound } from '../../kube/index.ts';

/** Not an object is missing, but the very kind: such an answer is no Status, or names no object. */
export function isMissingResource(error: ApiError): boolean {
  if (!isNotFound(error)) return false;
  return error.status === undefined || /could not find the requested resource/.test(error.message);
}
