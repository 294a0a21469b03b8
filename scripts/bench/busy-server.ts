import {
  ApiError,
  type Clock,
  ConnectionError,
  isAlreadyExists,
  type KubeClient,
  type KubeObject,
  type Resource,
  systemClock,
} from '../../kube/index.ts';

const againMs = 1_000;

/** Sends again what a busy server refuses or does not answer in time, until the signal is aborted. */
export async function retryWhileBusy<T>(
  call: () => Promise<T>,
  signal: AbortSignal,
  clock: Pick<Clock, 'sleep'> = systemClock,
): Promise<T> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      const isBusy = (error instanceof ApiError || error instanceof ConnectionError) && error.retryable;
      if (!isBusy || signal.aborted) throw error;
    }
    await clock.sleep(againMs, signal);
  }
}

/** The same of a create. Returns what is there: made by this call, by an earlier one without an answer, or by others. */
export async function createOrFind<T extends KubeObject>(
  client: KubeClient,
  resource: Resource,
  object: T,
  signal: AbortSignal,
): Promise<T> {
  return retryWhileBusy(async () => {
    try {
      return await client.create<T>(resource, object, { signal });
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
      const { namespace, name = '' } = object.metadata;
      return client.get<T>(resource, { namespace, name }, { signal });
    }
  }, signal);
}
