import { createHash } from 'node:crypto';
import {
  Connection,
  type ConnectionOptions,
  isRecord,
  KubeClient,
  messageOf,
  systemClock,
} from '../kube/index.ts';
import { SharedReadTime, type TenantReadTime } from '../program/read-time.ts';
import type { Session } from './sessions.ts';

/** Connections of people that are kept open at once; the one that was used longest ago is closed first. */
const maxClients = 100;
/** Of those that were asked last. */
const maxReadTimes = 1_000;
const operatorLimits = { pageBytes: 32 << 20, listBytes: 64 << 20, objectBytes: 4 << 20 };
/** Of a tenant's API server, which answers with whatever its admins please. */
const tenantLimits = {
  ...{ pageBytes: 4 << 20, listBytes: 8 << 20, objectBytes: 256 << 10 },
  ...{ answerValues: 250_000, listValues: 500_000 },
};
const requestTimeoutMs = 15_000;

/**
 * The user that this program impersonates for people who have signed in by OIDC: RBAC sees their groups, the audit log
 * their names.
 */
const oidcUser = 'skerry:dashboard';
const oidcNameKey = 'skerry.dev/oidc-user';

/** API servers as people who have signed in may use them. */
export class Clients {
  readonly #superCluster: ConnectionOptions;
  readonly #program: KubeClient;
  readonly #onProblem: (message: string) => void;
  readonly #open = new Map<string, KubeClient>();
  readonly #readTime = new SharedReadTime(systemClock);
  /** How much of this thread's time reading from each tenant takes, by its address. */
  readonly #readTimes = new Map<string, TenantReadTime>();

  constructor(superCluster: ConnectionOptions, program: KubeClient, onProblem: (message: string) => void) {
    this.#superCluster = superCluster;
    this.#program = program;
    this.#onProblem = onProblem;
  }

  /** The super cluster. */
  of({ as, user }: Pick<Session, 'as' | 'user'>): KubeClient {
    switch (as.is) {
      case 'program':
        return this.#program;
      case 'token':
        return this.#kept(...withToken(this.#superCluster, as.token, operatorLimits));
      case 'groups': {
        const impersonate = { user: oidcUser, groups: as.groups, extra: { [oidcNameKey]: [user] } };
        return this.#kept(`groups ${JSON.stringify([user, as.groups])}`, () => ({
          ...this.#superCluster,
          impersonate,
          readLimits: operatorLimits,
        }));
      }
    }
  }

  /** The API server of a tenant, with nothing but this token. */
  ofTenant(place: ConnectionOptions, token: string): KubeClient {
    return this.#kept(...withToken(this.#metered(place), token, tenantLimits));
  }

  /** The super cluster with the token of a sign-in. The connection is closed then: it takes no place of those kept. */
  tryOperator<T>(token: string, use: (client: KubeClient) => Promise<T>): Promise<T> {
    return this.#tryOnce(withToken(this.#superCluster, token, operatorLimits)[1](), use);
  }

  /** The same with the API server of a tenant. */
  tryTenant<T>(place: ConnectionOptions, token: string, use: (client: KubeClient) => Promise<T>): Promise<T> {
    return this.#tryOnce(withToken(this.#metered(place), token, tenantLimits)[1](), use);
  }

  /** Whatever its API server sends to this program for its users, others wait for no more than half of the time. */
  #metered(place: ConnectionOptions): ConnectionOptions {
    const key = `${place.server} ${place.tlsServerName ?? ''}`;
    const known = this.#readTimes.get(key) ?? this.#readTime.tenant();
    this.#readTimes.delete(key);
    this.#readTimes.set(key, known);
    const [oldest = ''] = this.#readTimes.keys();
    if (this.#readTimes.size > maxReadTimes) this.#readTimes.delete(oldest);
    return { ...place, meter: known.lists, answerMeter: known.answers };
  }

  async close(): Promise<void> {
    const all = [...this.#open.values()];
    this.#open.clear();
    await Promise.all(all.map(({ connection }) => connection.close()));
  }

  #kept(what: string, options: () => ConnectionOptions): KubeClient {
    const key = createHash('sha256').update(what).digest('base64');
    const known = this.#open.get(key);
    this.#open.delete(key);
    const client = known ?? clientOf(options());
    this.#open.set(key, client);
    const [oldest] = this.#open;
    if (this.#open.size > maxClients && oldest !== undefined) {
      this.#open.delete(oldest[0]);
      this.#close(oldest[1]);
    }
    return client;
  }

  async #tryOnce<T>(options: ConnectionOptions, use: (client: KubeClient) => Promise<T>): Promise<T> {
    const client = clientOf(options);
    try {
      return await use(client);
    } finally {
      this.#close(client);
    }
  }

  #close({ connection }: KubeClient): void {
    connection.close().catch((error: unknown) => {
      this.#onProblem(`a connection could not be closed: ${messageOf(error)}`);
    });
  }
}

/** What tells one client from another, and its options. */
function withToken(
  place: ConnectionOptions,
  token: string,
  readLimits: NonNullable<ConnectionOptions['readLimits']>,
): [what: string, options: () => ConnectionOptions] {
  const { cert: _cert, key: _key, authorization: _authorization, ...server } = place;
  const { ca, tlsServerName } = server;
  const where = JSON.stringify([server.server, tlsServerName, ca, token, readLimits]);
  return [`token ${where}`, () => ({ ...server, token, readLimits })];
}

function clientOf(options: ConnectionOptions): KubeClient {
  return new KubeClient(
    new Connection({ ...options, userAgent: 'skerry-dashboard', requestTimeoutMs, maxConnections: 4 }),
  );
}

/** An action, as a SelfSubjectAccessReview asks about it. */
export interface Attributes {
  readonly verb: string;
  readonly group?: string;
  readonly resource: string;
  readonly subresource?: string;
  readonly namespace?: string;
  readonly name?: string;
}

const rememberedMs = 20_000;
const maxRemembered = 20_000;

/** Asks API servers what people may, with their own credentials; answers are remembered for some seconds. */
export class Access {
  readonly #now: () => number;
  readonly #answers = new Map<string, { at: number; answer: Promise<boolean> }>();

  /** `now`: milliseconds. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** `whose`: id of the session. Throws what the API server answers to a question that it refuses, such as 401. */
  may(whose: string, client: KubeClient, attributes: Attributes): Promise<boolean> {
    const key = `${whose} ${JSON.stringify(attributes)}`;
    const now = this.#now();
    const known = this.#answers.get(key);
    if (known !== undefined && now - known.at < rememberedMs) return known.answer;
    this.#answers.delete(key);
    if (this.#answers.size >= maxRemembered) this.#answers.clear();
    const answer = isAllowed(client, attributes);
    this.#answers.set(key, { at: now, answer });
    answer.catch(() => this.#answers.delete(key));
    return answer;
  }
}

/** Asks without a memory. */
export async function isAllowed(
  client: KubeClient,
  attributes: Attributes,
  signal?: AbortSignal,
): Promise<boolean> {
  const path = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews';
  const body = {
    apiVersion: 'authorization.k8s.io/v1',
    kind: 'SelfSubjectAccessReview',
    spec: { resourceAttributes: { group: 'skerry.dev', ...attributes } },
  };
  const review = await client.raw('POST', path, { body, signal });
  return isRecord(review) && isRecord(review['status']) && review['status']['allowed'] === true;
}

/** The user name that the API server has for these credentials. Throws when they are anonymous. */
export async function whoAmI(client: KubeClient, signal?: AbortSignal): Promise<string> {
  const path = '/apis/authentication.k8s.io/v1/selfsubjectreviews';
  const review = await client.raw('POST', path, {
    body: { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' },
    signal,
  });
  const status = isRecord(review) ? review['status'] : undefined;
  const info = isRecord(status) ? status['userInfo'] : undefined;
  const name = isRecord(info) ? info['username'] : undefined;
  if (typeof name !== 'string' || name === '' || name === 'system:anonymous')
    throw new Error('the API server does not know whose token this is');
  return name.slice(0, 256);
}
