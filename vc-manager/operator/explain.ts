import { ApiError, ConnectionError } from '../../kube/index.ts';

/** An error as it is told to people and judged by the queue. */
export interface Explanation {
  /** For a condition: CamelCase. */
  reason: string;
  message: string;
  /** False: it lasts until somebody changes something. */
  retryable: boolean;
  retryAfterMs?: number;
  /** The component that it is about, where the error names one. */
  component?: string;
}

const longestMessage = 4_000;

/** The one place where errors of all rooms become reasons of conditions. */
export function explain(error: unknown): Explanation {
  if (error instanceof ApiError) {
    return {
      reason: camelCase(error.reason) || `HTTP${error.code}`,
      message: cut(error.message),
      retryable: error.retryable,
      ...(error.retryAfterMs === undefined ? {} : { retryAfterMs: error.retryAfterMs }),
    };
  }
  if (error instanceof ConnectionError) {
    return { reason: 'Unreachable', message: cut(error.message), retryable: true };
  }
  if (!(error instanceof Error))
    return { reason: 'InternalError', message: cut(String(error)), retryable: true };
  // Every room's errors carry a stable code and say whether trying again is of use.
  const { code, retryable, fields } = error as Error & {
    code?: unknown;
    retryable?: unknown;
    fields?: { component?: string };
  };
  return {
    reason: (typeof code === 'string' && camelCase(code)) || 'InternalError',
    message: cut(error.message),
    retryable: typeof retryable === 'boolean' ? retryable : true,
    ...(fields?.component === undefined ? {} : { component: fields.component }),
  };
}

// A reason of a condition matches [A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?
function camelCase(code: string): string {
  const name = code
    .split(/[^A-Za-z0-9]+/)
    .map((part) => part.charAt(0).toUpperCase() + part.slice(1))
    .join('');
  return /^[A-Za-z]/.test(name) ? name : '';
}

function cut(message: string): string {
  return message.length <= longestMessage ? message : `${message.slice(0, longestMessage)}...`;
}
