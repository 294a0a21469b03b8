import type { Answer, Call, Connection } from './connection.ts';
import { ApiError, ConnectionError, type Status } from './errors.ts';
import type { ObjectRef, Resource } from './types.ts';

type QueryValue = string | number | boolean | undefined;

/** Sends a call and parses its JSON answer, or what `edit` makes of it. Throws ApiError for any answer outside 2xx, ConnectionError for none. */
export async function requestJson(
  connection: Connection,
  call: Call,
  edit?: (text: string) => string,
): Promise<unknown> {
  const answer = await connection.request(call);
  if (answer.status < 200 || answer.status > 299) throw apiError(call, answer);
  try {
    return JSON.parse(edit === undefined ? answer.text : edit(answer.text));
  } catch (error) {
    throw new ConnectionError(
      connection.server,
      'ERR_INVALID_JSON',
      error,
      'the answer is not complete JSON',
    );
  }
}

export function apiError(call: Call, answer: Answer): ApiError {
  const [path] = call.path.split('?', 1);
  return new ApiError(answer.status, parseStatus(answer.text), `${call.method} ${path}`, answer.retryAfter);
}

function parseStatus(text: string): Status | undefined {
  try {
    const body: unknown = JSON.parse(text);
    if (typeof body === 'object' && body !== null && 'kind' in body && body.kind === 'Status') {
      return body as Status;
    }
  } catch {
    // Not JSON: a proxy's page or a plain text such as "404 page not found".
  }
  const message = text.trim().slice(0, 200);
  return message === '' ? undefined : { message };
}

/** `/api/v1/namespaces/{ns}/pods`; without a namespace, the collection across all namespaces. */
export function collectionPath(resource: Resource, namespace: string | undefined): string {
  const root =
    resource.group === '' ? `/api/${resource.version}` : `/apis/${resource.group}/${resource.version}`;
  return resource.namespaced && namespace !== undefined
    ? `${root}/namespaces/${segment(namespace)}/${resource.plural}`
    : `${root}/${resource.plural}`;
}

export function objectPath(resource: Resource, ref: ObjectRef, subresource?: string): string {
  if (resource.namespaced && !ref.namespace) {
    throw new TypeError(`${resource.kind} "${ref.name}" is named without its namespace`);
  }
  const path = `${collectionPath(resource, ref.namespace)}/${segment(ref.name)}`;
  return subresource === undefined ? path : `${path}/${subresource}`;
}

/** `?a=b&c=d`, leaving out what is undefined; empty when nothing is left. */
export function query(values: Record<string, QueryValue>): string {
  let text = '';
  for (const key in values) {
    const value = values[key];
    if (value !== undefined) text += `${text === '' ? '?' : '&'}${key}=${encodeURIComponent(value)}`;
  }
  return text;
}

// "." and ".." would survive the encoding and name another resource.
function segment(name: string): string {
  if (name === '' || name === '.' || name === '..') throw new TypeError(`"${name}" is no object's name`);
  return encodeURIComponent(name);
}
