import { Connection, systemClock } from '../../../kube/index.ts';
import type { Target } from './protocol.ts';

const attempts = 20;

export type WritePlural = 'pods' | 'configmaps' | 'services';

interface Write {
  method: 'POST' | 'PATCH' | 'DELETE';
  path: string;
  resource: WritePlural;
  body?: string;
}

/**
 * Writes to one namespace of one API server. Answers are not parsed; what a busy server refuses is sent again,
 * until the signal is aborted. A call that is under way then is not: whoever cannot wait for it need not.
 */
export class ApiCalls {
  readonly connection: Connection;
  readonly namespace: string;
  /** Calls sent again because the server asked for it. */
  retries = 0;

  constructor({ connection, namespace }: Target) {
    this.connection = new Connection({ ...connection, userAgent: 'skerry-bench' });
    this.namespace = namespace;
  }

  /** `body`: the object as JSON. */
  create(resource: WritePlural, body: string, signal: AbortSignal): Promise<void> {
    return this.#send({ method: 'POST', path: this.#path(resource), resource, body }, signal);
  }

  /** `body`: a merge patch as JSON. */
  patch(resource: WritePlural, name: string, body: string, signal: AbortSignal): Promise<void> {
    return this.#send({ method: 'PATCH', path: `${this.#path(resource)}/${name}`, resource, body }, signal);
  }

  /** As one does, with grace. What is gone already is no failure. */
  delete(resource: WritePlural, name: string, signal: AbortSignal): Promise<void> {
    return this.#send({ method: 'DELETE', path: `${this.#path(resource)}/${name}`, resource }, signal);
  }

  deleteAll(resource: WritePlural, labelSelector: string | undefined, signal: AbortSignal): Promise<void> {
    const query = labelSelector === undefined ? '' : `?labelSelector=${encodeURIComponent(labelSelector)}`;
    return this.#send({ method: 'DELETE', path: this.#path(resource) + query, resource }, signal);
  }

  #path(resource: WritePlural): string {
    return `/api/v1/namespaces/${this.namespace}/${resource}`;
  }

  async #send({ method, path, resource, body }: Write, signal: AbortSignal): Promise<void> {
    const contentType = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
    const verb = ({ POST: 'create', PATCH: 'patch', DELETE: 'delete' } as const)[method];
    const call = { method, path, verb, resource, body, contentType: body && contentType };
    for (let attempt = 1; ; attempt++) {
      const { status, text, retryAfter } = await this.connection.request({ ...call, timeoutMs: 60_000 });
      if (status < 300 || (status === 404 && method === 'DELETE')) return;
      const isBusy = status === 429 || status >= 500;
      if (!isBusy || attempt === attempts || signal.aborted)
        throw refusal(status, `${verb} ${resource}`, text);
      this.retries++;
      await systemClock.sleep(Number(retryAfter ?? 0) * 1000 || 100, signal);
    }
  }
}

function refusal(status: number, call: string, text: string): Error {
  const message = /"message":"((?:[^"\\]|\\.)*)"/.exec(text)?.[1];
  return new Error(`${call}: HTTP ${status}${message === undefined ? '' : `, ${message}`}`);
}
