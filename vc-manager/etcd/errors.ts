import { CodedError, messageOf } from '../../kube/index.ts';

/** What can go wrong with the datastore. */
type EtcdErrorCode =
  | 'Unreachable'
  | 'Timeout'
  | 'TlsRefused'
  | 'Unavailable'
  | 'NoSpace'
  | 'PasswordRefused'
  | 'TokenRefused'
  | 'AuthDisabled'
  | 'AuthStoreMoved'
  | 'PermissionDenied'
  | 'CertificateRefused'
  | 'AlreadyExists'
  | 'NotFound'
  | 'RequestRefused'
  | 'AnswerTooLarge'
  | 'Compacted'
  | 'TenantNotRemoved'
  | 'ReplaceSuperseded'
  | 'RemovalSuperseded'
  | 'InvalidTenantId'
  | 'InvalidOptions';

const retryableCodes: ReadonlySet<EtcdErrorCode> = new Set<EtcdErrorCode>([
  'Unreachable',
  'Timeout',
  'Unavailable',
  'NoSpace',
  'TokenRefused',
  'AuthDisabled',
  'AuthStoreMoved',
  'TenantNotRemoved',
  'ReplaceSuperseded',
  'RemovalSuperseded',
]);

export class EtcdError extends CodedError<EtcdErrorCode> {
  override readonly name = 'EtcdError';
  /** Where the request went; empty when there was none. */
  readonly endpoint: string;
  /** Path of the request, for example `/v3/auth/user/add`; empty when there was none. */
  readonly path: string;

  constructor(
    code: EtcdErrorCode,
    message: string,
    where: { endpoint?: string; path?: string } = {},
    options?: ErrorOptions,
  ) {
    super(code, message, retryableCodes.has(code), options);
    this.endpoint = where.endpoint ?? '';
    this.path = where.path ?? '';
  }
}

/** What etcd's own messages mean. They are part of its API: clients in other languages tell errors apart by them too. */
const answers: readonly (readonly [RegExp, EtcdErrorCode, remedy: string])[] = [
  [
    /authentication failed, invalid user ID or password/,
    'PasswordRefused',
    'The password of its user "root" is not the one kept in the manager\'s PKI directory (etcd-root.password): restore that file, or the datastore it belongs to.',
  ],
  [/invalid auth token/, 'TokenRefused', 'Try again: a new token is asked for.'],
  [/revision of auth store is old/, 'AuthStoreMoved', 'Try again: users or roles changed meanwhile.'],
  [
    /authentication is not enabled/,
    'AuthDisabled',
    'It was started anew or its authentication was switched off: enable it before a tenant uses it.',
  ],
  [
    /database space exceeded/,
    'NoSpace',
    'It is full and refuses all writes: raise its quota or delete tenants, let it compact and defragment it, then clear its NOSPACE alarm.',
  ],
  [
    /CommonName of client/,
    'CertificateRefused',
    'Its JSON gateway takes only client certificates without a common name: use the one named etcd-manager.',
  ],
  [/(user|role) name already exists/, 'AlreadyExists', 'Nothing has to be done.'],
  [/(user|role) name not found|(role|permission) is not granted/, 'NotFound', 'Nothing has to be done.'],
  [/has been compacted/, 'Compacted', 'What was at that time is forgotten: read it anew, as it is now.'],
  [
    /permission denied|user name is empty/,
    'PermissionDenied',
    'The user of this request may not do that: let it be "root".',
  ],
  [
    /no leader|leader changed|not leader|request timed out|server stopped|unhealthy cluster|too many requests|deadline exceeded/,
    'Unavailable',
    'Wait until it has a leader and time to answer; if that takes more than a minute, look at its log and its disk.',
  ],
];

/** Maps an answer that is not a success. `message` is the text that etcd gave. */
export function answeredError(endpoint: string, path: string, status: number, message: string): EtcdError {
  const text = message.trim().replace(/^etcdserver: /, '') || `HTTP ${status}`;
  const [, code, remedy] = answers.find(([pattern]) => pattern.test(message)) ?? [
    undefined,
    status >= 500 && status !== 501 ? ('Unavailable' as const) : ('RequestRefused' as const),
    'Check that it is etcd 3.7.1 or newer and that its JSON gateway is on.',
  ];
  return new EtcdError(code, `The datastore at ${endpoint} answered ${path} with "${text}". ${remedy}`, {
    endpoint,
    path,
  });
}

export function answerTooLarge(endpoint: string, path: string, limitBytes: number): EtcdError {
  return new EtcdError(
    'AnswerTooLarge',
    `The datastore at ${endpoint} answered ${path} with more than ${limitBytes} bytes, which is more than is read at once: a value in it is larger than etcd takes by default.`,
    { endpoint, path },
  );
}

/** Maps a request that got no answer. */
export function connectionError(endpoint: string, path: string, cause: unknown): EtcdError {
  const code = codeOf(cause);
  const why = messageOf(cause);
  const where = { endpoint, path };
  if (/^(UND_ERR_(HEADERS|BODY|CONNECT)_TIMEOUT|ETIMEDOUT)$/.test(code) || nameOf(cause) === 'TimeoutError') {
    return new EtcdError(
      'Timeout',
      `The datastore at ${endpoint} did not answer ${path} in time. Check that its process runs and that its disk is not overloaded.`,
      where,
      { cause },
    );
  }
  if (/^(ERR_TLS|ERR_SSL|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO|ERR_OSSL)|SSL|CERT/.test(code)) {
    return new EtcdError(
      'TlsRefused',
      `The datastore at ${endpoint} and the manager do not trust each other (${why}). Its certificate and the manager's have to come from the same authority, the manager's etcd-ca: restart the datastore with the files of the manager's PKI directory.`,
      where,
      { cause },
    );
  }
  if (/^(UND_ERR_SOCKET|ECONNRESET|EPIPE)$/.test(code)) {
    // With TLS 1.3 a server that refuses a client certificate looks just like one that ends.
    return new EtcdError(
      'Unreachable',
      `The datastore at ${endpoint} closed the connection (${why}). Either it is stopping: try again; or it does not accept the manager's certificate: restart it with the files of the manager's PKI directory.`,
      where,
      { cause },
    );
  }
  return new EtcdError(
    'Unreachable',
    `The datastore at ${endpoint} cannot be reached (${why}). Check that its process runs and listens there; its log says why it does not.`,
    where,
    { cause },
  );
}

export function invalidTenantId(id: string): EtcdError {
  return new EtcdError(
    'InvalidTenantId',
    `"${id}" is not the id of a tenant. An id has 1 to 50 lower-case letters, digits and "-", and starts and ends with a letter or digit.`,
  );
}

export function tenantNotRemoved(id: string, left: readonly string[]): EtcdError {
  return new EtcdError(
    'TenantNotRemoved',
    `Tenant ${id} is not gone from the datastore: ${left.join(', ')} left. Stop everything that still writes there and try again.`,
  );
}

function codeOf(cause: unknown): string {
  return cause instanceof Error && 'code' in cause ? String(cause.code) : '';
}

function nameOf(cause: unknown): string {
  return cause instanceof Error ? cause.name : '';
}

export function replaceSuperseded(prefix: string): EtcdError {
  return new EtcdError(
    'ReplaceSuperseded',
    `Another manager has begun to replace the keys below ${prefix}: this one writes nothing more.`,
  );
}

export function removalSuperseded(prefix: string): EtcdError {
  return new EtcdError(
    'RemovalSuperseded',
    `Keys below ${prefix} were written while they were being removed: somebody uses them again, and this manager removes ` +
      'nothing more.',
  );
}
