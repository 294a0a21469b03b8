import type { Call, Connection } from './connection.ts';
import { ApiError, asStatus, ConnectionError, printable, type Status } from './errors.ts';
import { isTooLarge, parseCounted, parseJson } from './read-limits.ts';
import type { Answer } from './round-trip.ts';
import { isRecord, type ObjectRef, type Resource } from './types.ts';

type QueryValue = string | number | boolean | undefined;

/** Sends a call and parses its JSON answer, or what `edit` makes of it. Throws ApiError for any answer outside 2xx, ConnectionError for none. */
export async function requestJson(
  connection: Connection,
  call: Call,
  edit?: (text: string) => string,
): Promise<unknown> {
  const text = await requestText(connection, call);
  const { answerValues } = connection.readLimits;
  return parseAnswer(connection, edit === undefined ? text : edit(text), answerValues).parsed;
}

/** Sends a call and reads its answer. Throws like `requestJson`. */
export async function requestText(connection: Connection, call: Call): Promise<string> {
  const answer = await connection.request(call);
  if (answer.status < 200 || answer.status > 299) throw apiError(call, answer);
  return answer.text;
}

/** As `parseCounted`. Throws a ConnectionError. */
export function parseAnswer(
  connection: Connection,
  text: string,
  maxValues: number,
): { parsed: unknown; values: number } {
  try {
    return parseCounted(text, maxValues);
  } catch (error) {
    if (isTooLarge(error)) throw connection.failure(error, undefined);
    throw new ConnectionError(
      connection.server,
      'ERR_INVALID_JSON',
      error,
      'the answer is not complete JSON, or nests too deep',
    );
  }
}

export function apiError(call: Call, answer: Answer): ApiError {
  const [path] = call.path.split('?', 1);
  return new ApiError(answer.status, parseStatus(answer.text), `${call.method} ${path}`, answer.retryAfter);
}

/** Of an answer that is no Status. */
const longestText = 200;

function parseStatus(text: string): Status | undefined {
  try {
    const body = parseJson(text);
    if (isRecord(body) && body['kind'] === 'Status') return asStatus(body);
  } catch {
    // Not JSON: a proxy's page or a plain text such as "404 page not found".
  }
  const message = printable(text.trim(), longestText);
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

/** What the metadata of an object alone is an object of. */
export const metadataVersion = 'meta.k8s.io/v1';

/** The header by which a server is asked for metadata alone; one that does not know of that sends whole objects. */
export function metadataAccept(as: 'PartialObjectMetadata' | 'PartialObjectMetadataList'): string {
  return `application/json;as=${as};g=meta.k8s.io;v=v1,application/json`;
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
