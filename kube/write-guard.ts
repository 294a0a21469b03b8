import type { Dispatcher } from 'undici';

/** Our own side did not let a call out; `cause` is what it threw. */
export class WriteRefused extends Error {
  readonly code: string;

  constructor(cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
    const code: unknown = cause instanceof Error && 'code' in cause ? cause.code : undefined;
    this.code = typeof code === 'string' ? code : 'EREFUSED';
  }
}

/** Asks before each call that is no GET is written to its connection; one that waits for a connection is asked about then. */
export function guardWrites(beforeWrite: () => void): Dispatcher.DispatcherComposeInterceptor {
  return (dispatch) => (options, handler) =>
    dispatch(options, options.method === 'GET' ? handler : guarded(handler, beforeWrite));
}

/** The handler itself, but for its first call: nothing of an answer passes through here. */
function guarded(handler: Dispatcher.DispatchHandler, beforeWrite: () => void): Dispatcher.DispatchHandler {
  const start = handler.onRequestStart?.bind(handler);
  handler.onRequestStart = (controller, context) => {
    try {
      beforeWrite();
    } catch (error) {
      // Thrown, not aborted: the connection stays as it is.
      throw new WriteRefused(error);
    }
    start?.(controller, context);
  };
  return handler;
}
