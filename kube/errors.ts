import { isContinueToken } from './object-shape.ts';
import { isRecord } from './types.ts';

/** Base of a folder's own errors: a code that stays, and a message that names what one can do. */
export abstract class CodedError<Code extends string> extends Error {
  readonly code: Code;
  /** False: the same call fails again until the caller or a person changes something. */
  readonly retryable: boolean;

  constructor(code: Code, message: string, retryable: boolean, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.retryable = retryable;
  }
}

/** Of whatever was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** One entry of `Status.details.causes`. */
export interface StatusCause {
  reason?: string;
  message?: string;
  field?: string;
}

/** `metav1.Status`: what an API server answers when it refuses or has nothing else to say. */
export interface Status {
  kind?: string;
  apiVersion?: string;
  /** Of a list that has gone on for too long: where it can go on all the same. */
  metadata?: { continue?: string };
  status?: string;
  message?: string;
  reason?: string;
  code?: number;
  details?: {
    name?: string;
    group?: string;
    kind?: string;
    uid?: string;
    causes?: StatusCause[];
    retryAfterSeconds?: number;
  };
}

const longestMessage = 8_192;
/** Of a reason or the path of a field. */
const longestName = 1_024;

/**
 * What an API server sent as a Status: fields that are unknown or of a wrong type are left out, texts are made printable and
 * cut.
 */
export function asStatus(value: unknown): Status {
  if (!isRecord(value)) return {};
  const { message, code, details, metadata } = value;
  const token = isRecord(metadata) ? metadata['continue'] : undefined;
  return {
    ...texts(value, ['kind', 'apiVersion', 'status', 'reason']),
    ...(isContinueToken(token) && { metadata: { continue: token } }),
    ...(typeof message === 'string' && { message: printable(message, longestMessage) }),
    ...(typeof code === 'number' && { code }),
    ...(isRecord(details) && { details: asDetails(details) }),
  };
}

function asDetails(details: Record<string, unknown>): NonNullable<Status['details']> {
  const { causes, retryAfterSeconds } = details;
  return {
    ...texts(details, ['name', 'group', 'kind', 'uid']),
    ...(typeof retryAfterSeconds === 'number' && { retryAfterSeconds }),
    ...(Array.isArray(causes) && { causes: causes.filter(isRecord).slice(0, 100).map(asCause) }),
  };
}

function texts<Field extends string>(
  value: Record<string, unknown>,
  fields: readonly Field[],
): { [field in Field]?: string } {
  const found: { [field in Field]?: string } = {};
  for (const field of fields) {
    const text = value[field];
    if (typeof text === 'string') found[field] = printable(text, longestName);
  }
  return found;
}

function asCause(cause: Record<string, unknown>): StatusCause {
  const { reason, message, field } = cause;
  return {
    ...(typeof reason === 'string' && { reason: printable(reason, longestName) }),
    ...(typeof message === 'string' && { message: printable(message, longestMessage) }),
    ...(typeof field === 'string' && { field: printable(field, longestName) }),
  };
}

/** An API server answered, and the answer is not a success. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  /** HTTP status. */
  readonly code: number;
  /** `Status.reason`, for example `NotFound`; empty when the body was no Status. */
  readonly reason: string;
  /** Not enumerable: logs have the message, and need no more of it. */
  readonly status: Status | undefined;
  /** How long the server asks to wait, from `Retry-After` or `details.retryAfterSeconds`; a minute at most. */
  readonly retryAfterMs: number | undefined;
  /** True for 429, 5xx and Conflict: the same intention may succeed later. */
  readonly retryable: boolean;

  constructor(code: number, status: Status | undefined, what: string, retryAfter?: string) {
    super(`${what}: ${status?.message ?? `HTTP ${code}`}`);
    this.code = code;
    this.reason = status?.reason ?? '';
    this.status = status;
    Object.defineProperty(this, 'status', { enumerable: false });
    this.retryAfterMs = retryAfterMs(retryAfter, status);
    this.retryable = code === 429 || code >= 500 || this.reason === 'Conflict';
  }

  /** True when the server names this among its causes, for example `NamespaceTerminating`. */
  hasCause(type: string): boolean {
    return this.status?.details?.causes?.some((cause) => cause.reason === type) ?? false;
  }
}

const remedies: Record<string, string> = {
  ECONNREFUSED: 'nothing listens there; is the API server running?',
  ENOTFOUND: 'the host name does not resolve',
  EAI_AGAIN: 'the host name does not resolve at the moment',
  ETIMEDOUT: 'no answer in time',
  UND_ERR_CONNECT_TIMEOUT: 'no connection in time; is the address right and reachable?',
  UND_ERR_HEADERS_TIMEOUT: 'no answer in time',
  UND_ERR_BODY_TIMEOUT: 'the answer stopped half-way',
  UND_ERR_HEADERS_OVERFLOW: 'the headers of the answer are too large',
  UND_ERR_DESTROYED: 'the connection was closed on our side',
  CERT_HAS_EXPIRED: 'its certificate has expired; renew it',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'its certificate is not signed by the CA in the kubeconfig',
  SELF_SIGNED_CERT_IN_CHAIN: 'its certificate is not signed by the CA in the kubeconfig',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'its certificate is not signed by the CA in the kubeconfig',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'its certificate is not signed by the CA in the kubeconfig',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another name; check the address or tls-server-name',
};

/** The API server could not be reached, or the connection broke before the answer was complete. */
export class ConnectionError extends Error {
  override readonly name = 'ConnectionError';
  /** Of Node.js, OpenSSL or undici: `ECONNREFUSED`, `ECONNRESET`, `UND_ERR_HEADERS_TIMEOUT`, ... */
  readonly code: string;
  readonly retryable = true;
  readonly server: string;

  constructor(server: string, code: string, cause?: unknown, detail?: string) {
    const why = detail ?? remedies[code] ?? (cause instanceof Error ? cause.message : 'connection failed');
    // Names in certificates, and what a parser repeats, are the other side's words.
    super(printable(`${server}: ${why} (${code})`, longestMessage), { cause });
    this.server = server;
    this.code = code;
  }
}

/** A kubeconfig that cannot be read, or that holds more than may be trusted. */
export class KubeconfigError extends CodedError<
  'InvalidKubeconfig' | 'KubeconfigNotFound' | 'ForbiddenField' | 'UnsupportedField'
> {
  override readonly name = 'KubeconfigError';

  constructor(code: KubeconfigError['code'], message: string, options?: ErrorOptions) {
    // It may repeat what stands in a kubeconfig of others.
    super(code, printable(message, longestMessage), false, options);
  }
}

export function isNotFound(error: unknown): error is ApiError {
  return error instanceof ApiError && error.code === 404;
}

/** What the server answered; undefined: it does not have what was asked for. */
export async function ignoreNotFound<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (!isNotFound(error)) throw error;
    return undefined;
  }
}

export function isAlreadyExists(error: unknown): error is ApiError {
  return error instanceof ApiError && error.reason === 'AlreadyExists';
}

/** A failed precondition (resourceVersion or UID); AlreadyExists is a 409 too, but not this. */
export function isConflict(error: unknown): error is ApiError {
  return error instanceof ApiError && error.code === 409 && error.reason !== 'AlreadyExists';
}

/** The resourceVersion or continue token is too old: list again. */
export function isGone(error: unknown): error is ApiError {
  return (
    error instanceof ApiError && (error.code === 410 || error.reason === 'Expired' || error.reason === 'Gone')
  );
}

export function isForbidden(error: unknown): error is ApiError {
  return error instanceof ApiError && error.code === 403;
}

/** A policy or a webhook of the cluster refused it, for every user: not RBAC, and not what the API server itself checks. */
export function isDeniedByAdmission(error: unknown): error is ApiError {
  return (
    error instanceof ApiError &&
    error.code >= 400 &&
    error.code < 500 &&
    /denied (the )?request/.test(error.message)
  );
}

export function isUnauthorized(error: unknown): error is ApiError {
  return error instanceof ApiError && error.code === 401;
}

/**
 * The server does not know a resourceVersion that is as high as ours. Either it lags, or its data
 * is older than what we have seen: a restored backup, another server behind the same address.
 */
export function isResourceVersionTooLarge(error: unknown): error is ApiError {
  return (
    error instanceof ApiError &&
    (error.hasCause('ResourceVersionTooLarge') ||
      (error.code === 504 && /too large resource version/i.test(error.message)))
  );
}

/** A server that asks for more, by mistake or to be left alone for good, is asked again all the same. */
const longestRetryAfterMs = 60_000;

function retryAfterMs(header: string | undefined, status: Status | undefined): number | undefined {
  const told = status?.details?.retryAfterSeconds;
  const seconds =
    header !== undefined && /^\d+$/.test(header)
      ? Number(header)
      : typeof told === 'number' && told > 0
        ? told
        : undefined;
  return seconds === undefined ? undefined : Math.min(seconds * 1000, longestRetryAfterMs);
}

/** Control characters, and those that change the direction or the order in which a terminal shows text. */
const unprintable = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}]/gu;
const lineBreaks = /[\t\n\v\f\r]+/g;

/**
 * Text of unknown origin for people to read: one line, without what a terminal would act on, cut at `maxLength`. A copy: a
 * slice would keep the text that it was cut from.
 */
export function printable(text: string, maxLength: number): string {
  const cut = text.length > maxLength ? `${text.slice(0, maxLength)}...` : text;
  return Buffer.from(cut.replaceAll(lineBreaks, ' ').replaceAll(unprintable, '?')).toString();
}
