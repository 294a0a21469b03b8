import { randomBytes, X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http';
import { createServer as createTlsServer, Server as TlsServer } from 'node:https';
import { type AddressInfo, BlockList, isIP, type Socket } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { createSecureContext } from 'node:tls';
import { z } from 'zod';
import { type PodList, podStages } from '../api/pod-report.ts';
import type { VirtualCluster } from '../api/virtual-cluster.ts';
import {
  ApiError,
  Connection,
  ConnectionError,
  type ConnectionOptions,
  connectionFromSecret,
  KubeClient,
  messageOf,
  namespacedName,
  systemClock,
  untilAborted,
  Wakeup,
} from '../kube/index.ts';
import { hostInUrl, isLoopback, ListenError } from '../program/addresses.ts';
import { FairShares } from '../program/fair-shares.ts';
import { UnauthenticatedConnections } from '../program/unauthenticated-connections.ts';
import type { Assets } from './assets.ts';
import type { Action, Backend, ListedPods, TenantRef, TracedPod } from './backend.ts';
import { Access, type Attributes, Clients, isAllowed, whoAmI } from './clients.ts';
import { type Changes, Fleet } from './fleet.ts';
import {
  ConcurrencyLimiter,
  clientAddress,
  cookieOf,
  EventStream,
  HttpError,
  networkOf,
  readJson,
  SlowReaderError,
  sendAsset,
  sendJson,
} from './http.ts';
import { isCancelled, Oidc, OidcRefusal, type OidcSettings } from './oidc.ts';
import { isSameSecret, type Session, Sessions, SessionTooLarge } from './sessions.ts';
import { refreshMs, Syncers } from './syncers.ts';
import { ownTenant, tenantDetail } from './views.ts';

export interface DashboardOptions {
  /** With the credentials of this program. */
  superCluster: ConnectionOptions;
  backend: Backend;
  assets: Assets;
  /** Where the syncers have their Leases. */
  systemNamespace: string;
  /** Where people reach it; needed for OIDC, and for anything but loopback without `tls`. */
  url?: string | undefined;
  tls?: Tls | undefined;
  /** Where `tls` comes from: asked again while it runs. */
  readTls?: (() => Promise<Tls>) | undefined;
  /** Ranges of the proxies in front of it, which are believed when they say by whom they were asked. Default: none. */
  trustedProxies?: readonly string[] | undefined;
  oidc?: OidcSettings | undefined;
  /** 32 bytes; another replica with the same key accepts the same sessions. Default: random. */
  sessionKey?: Uint8Array | undefined;
  now?: () => number;
  /** Open pages of tenants, and as many of operators. `each`: of one of them. Default: 500, and 50 of each. */
  maxStreams?: { readonly all: number; readonly each: number };
  /** Connections without a request of a signed-in user that is being answered. Default: 500. */
  maxUnauthenticated?: number;
  /** Holds back what is refused. Default: for so many milliseconds. */
  holdBack?: (ms: number) => Promise<unknown>;
  /** What keeps it from showing what is. */
  onProblem?: (message: string) => void;
}

interface Tls {
  readonly cert: string;
  readonly key: string;
}

/** It would read tokens that go over the network in the clear. */
export class UnprotectedError extends Error {
  override readonly name = 'UnprotectedError';
}

/** Changes within it are sent together. */
const coalesceMs = 500;
/** How long a page waits for a dashboard that has just been started. */
const firstListMs = 5_000;
const heartbeatMs = 15_000;
/** Of tenants, and as many of operators. `each`: of one of them. */
const maxStreams = { each: 50, all: 500 };
/** Connections without a request of a signed-in user that is being answered. */
const maxUnauthenticated = 500;
const failuresPerMinute = { each: 20, all: 300 };
/** A page that reads nothing for so long has its stream ended. */
const unreadMs = 60_000;
/** Requests of one tenant. */
const tenantConcurrency = { atOnce: 8, waiting: 200 };
/** Of one tenant, or to the super cluster. */
const signInConcurrency = { atOnce: 5, waiting: 50 };
/** When a sign-in to a tenant is refused: no sooner where there is no such tenant, no later where it does not answer. */
const refusedAfterMs = 5_000;
/** So long one that was read is used again. */
const kubeconfigMs = 5_000;
/** For a user who may not list tenants in all namespaces, the right is looked up in so many of them. */
const maxNamespaces = 500;
const dnsName = '[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?';
const podName = '[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?';
const tenantPath = new RegExp(`^/api/tenants/(?<namespace>${dnsName})/(?<name>${dnsName})(?:/(?<rest>.+))?$`);
const podPath = new RegExp(`^pods/(?<namespace>${dnsName})/(?<name>${podName})$`);

const signInSchema = z.union([
  z.strictObject({ link: z.string().max(100) }),
  z.strictObject({
    token: z
      .string()
      .trim()
      .regex(/^[\x21-\x7e]{1,4000}$/),
    tenant: z
      .string()
      .regex(new RegExp(`^${dnsName}/${dnsName}$`))
      .optional(),
  }),
]);

const version = z
  .string()
  .regex(/^1\.\d{1,3}(\.\d{1,3})?$/)
  .optional();
const actionSchema = z.discriminatedUnion('do', [
  z.strictObject({
    do: z.literal('create'),
    version,
    weight: z.int().min(1).max(1_000).optional(),
    podSecurity: z.enum(['restricted', 'baseline', 'privileged']).optional(),
    deletionProtection: z.boolean().optional(),
  }),
  z.strictObject({ do: z.enum(['sleep', 'wake', 'snapshot', 'renew', 'retry', 'cancel']) }),
  z.strictObject({ do: z.literal('upgrade'), version, force: z.boolean().optional() }),
  z.strictObject({
    do: z.literal('delete'),
    uid: z.string().min(1).max(64),
    confirm: z.string().max(63),
    snapshotFirst: z.boolean().optional(),
  }),
]);

/** A request of a signed-in user. */
interface Asked {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly session: Session;
  readonly url: URL;
  /** Ends with the connection. */
  readonly signal: AbortSignal;
}

/**
 * Serves the dashboard. Operators are asked for by the super cluster, with the credentials they signed in with; tenants
 * by their own API server. No answer has what the user may not see.
 */
export class Dashboard {
  readonly #options: DashboardOptions;
  readonly #backend: Backend;
  readonly #program: KubeClient;
  readonly #clients: Clients;
  readonly #fleet: Fleet;
  readonly #syncers: Syncers;
  /** Someone looks at what is old. */
  readonly #looked = new Wakeup();
  readonly #access: Access;
  readonly #sessions: Sessions;
  readonly #oidc: Oidc | undefined;
  #tls: Tls | undefined;
  /** Whose names are those of the dashboard. */
  #certificate: X509Certificate | undefined;
  readonly #trustedProxies: BlockList | undefined;
  readonly #tenantConcurrency = new ConcurrencyLimiter(tenantConcurrency);
  readonly #signInConcurrency = new ConcurrencyLimiter(signInConcurrency);
  readonly #holdBack: (ms: number) => Promise<unknown>;
  readonly #server: Server;
  readonly #now: () => number;
  readonly #failures = new Map<string, number>();
  #failuresSince = 0;
  /** Open pages. Whatever tenants open, there is room for operators. */
  readonly #streams: { readonly operators: FairShares; readonly tenants: FairShares };
  readonly #unauthenticated: UnauthenticatedConnections;
  readonly #kubeconfigs = new Map<string, KnownKubeconfig>();
  #host = '127.0.0.1';
  #port = 0;
  /** What was told last of a certificate that cannot be used. */
  #certificateProblem: string | undefined;
  /** What was told last of why a tenant is not told of its pods, by tenant and question. A page asks again and again. */
  readonly #podProblems = new Map<string, string>();

  constructor(options: DashboardOptions) {
    this.#options = options;
    this.#backend = options.backend;
    this.#now = options.now ?? Date.now;
    this.#program = new KubeClient(
      new Connection({ userAgent: 'skerry-dashboard', ...options.superCluster }),
    );
    this.#clients = new Clients(options.superCluster, this.#program, (problem) =>
      options.onProblem?.(problem),
    );
    this.#fleet = new Fleet((vc) => options.backend.assess(vc), this.#now());
    this.#syncers = new Syncers(options.systemNamespace, this.#now);
    this.#access = new Access(this.#now);
    this.#sessions = new Sessions(options.sessionKey ?? randomBytes(32), this.#now);
    if (options.oidc !== undefined) {
      if (options.url === undefined) throw new TypeError('OIDC needs the URL of the dashboard');
      this.#oidc = new Oidc(options.oidc, options.url);
    }
    const listener: RequestListener = (request, response) => void this.#serve(request, response);
    const settings = { requestTimeout: 30_000, headersTimeout: 15_000, maxHeaderSize: 16 * 1024 };
    const tlsSettings = { ...settings, handshakeTimeout: 15_000 };
    this.#tls = options.tls;
    this.#certificate = options.tls && new X509Certificate(options.tls.cert);
    this.#trustedProxies = options.trustedProxies?.length ? rangesOf(options.trustedProxies) : undefined;
    const most = options.maxStreams ?? maxStreams;
    this.#streams = { operators: new FairShares(most), tenants: new FairShares(most) };
    this.#holdBack = options.holdBack ?? ((ms) => setTimeout(ms));
    this.#server =
      options.tls === undefined
        ? createServer(settings, listener)
        : createTlsServer({ ...tlsSettings, ...options.tls }, listener);
    this.#unauthenticated = new UnauthenticatedConnections(options.maxUnauthenticated ?? maxUnauthenticated);
    // Before any handshake.
    this.#server.on('connection', (socket: Socket) => this.#unauthenticated.arrive(socket));
  }

  /**
   * @returns the port
   * @throws ListenError, and UnprotectedError for an address beyond loopback
   */
  async listen(host: string, port: number): Promise<number> {
    const { url, tls } = this.#options;
    if (!isLoopback(host) && tls === undefined && !url?.startsWith('https:')) {
      throw new UnprotectedError(
        `the dashboard does not listen on ${host} without TLS: give it a certificate, or the https address of what ends TLS in front of it`,
      );
    }
    this.#server.listen(port, host);
    await once(this.#server, 'listening').catch((cause: Error) => {
      throw new ListenError('serve the dashboard', host, port, cause);
    });
    // An accept that fails, for lack of file descriptors, is no reason to end.
    this.#server.on('error', () => undefined);
    this.#host = host;
    this.#port = (this.#server.address() as AddressInfo).port;
    return this.#port;
  }

  /** An address that signs in whoever opens it first as this program. The secret is in the part that no server sees. */
  link(): string {
    const scheme = this.#options.tls === undefined ? 'http' : 'https';
    return `${scheme}://${hostInUrl(this.#host)}:${this.#port}/#link=${this.#sessions.link()}`;
  }

  /** Resolves when all tenants are known, or when the signal ends the wait. */
  async ready(signal: AbortSignal): Promise<void> {
    await Promise.race([this.#fleet.synced, untilAborted(signal)]);
  }

  /** Keeps what it shows up to date until aborted; then closes everything. Throws what it did not expect. */
  async run(signal: AbortSignal): Promise<void> {
    const failed = new AbortController();
    const ended = AbortSignal.any([signal, failed.signal]);
    const parts = [
      this.#fleet.run(this.#program, ended, () => {
        const { problem } = this.#fleet;
        if (problem !== undefined) this.#options.onProblem?.(problem);
      }),
      this.#refresh(ended),
    ].map((part) =>
      part.catch((error: unknown) => {
        failed.abort(error);
      }),
    );
    await Promise.all(parts);
    await this.close();
    if (!signal.aborted) throw failed.signal.reason;
  }

  async #refresh(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      if (this.#syncers.isDue) await this.#syncers.refresh(this.#program, signal);
      await this.refreshCertificate();
      await this.#looked.waitFor(refreshMs, systemClock, signal);
    }
  }

  /** Someone is shown what the syncers say. */
  #look(): void {
    if (this.#syncers.look()) this.#looked.signal();
  }

  /** Takes the certificate as it is now. One that cannot be used is reported, and the one before stays. */
  async refreshCertificate(): Promise<void> {
    const { readTls, onProblem } = this.#options;
    if (readTls === undefined || !(this.#server instanceof TlsServer)) return;
    try {
      const tls = await readTls();
      if (tls.cert !== this.#tls?.cert || tls.key !== this.#tls.key) {
        createSecureContext(tls);
        this.#certificate = new X509Certificate(tls.cert);
        this.#server.setSecureContext(tls);
        this.#tls = tls;
      }
      this.#certificateProblem = undefined;
    } catch (error) {
      const problem = `the certificate cannot be taken, the one before stays: ${messageOf(error)}`;
      if (problem !== this.#certificateProblem) onProblem?.(problem);
      this.#certificateProblem = problem;
    }
  }

  async close(): Promise<void> {
    if (this.#server.listening) {
      const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
      this.#server.closeAllConnections();
      await closed;
    }
    await Promise.all([this.#clients.close(), this.#program.connection.close()]);
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.on('error', () => undefined);
    // A request that has ended has none any more.
    const { socket } = request;
    try {
      this.#secure(response);
      await this.#route(request, response);
    } catch (error) {
      const { status, message } = this.#explain(error);
      if (response.headersSent || response.destroyed) response.destroy();
      else await sendJson(request, response, { message }, status);
    } finally {
      this.#unauthenticated.unknown(socket);
    }
  }

  #explain(error: unknown): { status: number; message: string } {
    if (error instanceof HttpError) return { status: error.status, message: error.message };
    if (error instanceof SessionTooLarge) return { status: 400, message: error.message };
    if (error instanceof ApiError && error.code === 401)
      return { status: 401, message: 'the API server does not accept this token any more: sign in again' };
    if (error instanceof ApiError || error instanceof ConnectionError) {
      const status = error instanceof ApiError && error.code < 500 ? error.code : 502;
      return {
        status,
        message: error instanceof ApiError ? (error.status?.message ?? error.message) : error.message,
      };
    }
    return this.#backend.explain(error);
  }

  #secure(response: ServerResponse): void {
    const scripts = ["'self'", ...this.#options.assets.scriptHashes].join(' ');
    const policy = [
      "default-src 'none'",
      `script-src ${scripts}`,
      "style-src 'self'",
      "img-src 'self'",
      "connect-src 'self'",
      "base-uri 'none'",
      "form-action 'none'",
      "frame-ancestors 'none'",
    ];
    response.setHeader('content-security-policy', policy.join('; '));
    response.setHeader('x-content-type-options', 'nosniff');
    response.setHeader('referrer-policy', 'no-referrer');
    response.setHeader('cross-origin-opener-policy', 'same-origin');
    response.setHeader('cross-origin-resource-policy', 'same-origin');
    response.setHeader('permissions-policy', 'camera=(), geolocation=(), microphone=()');
    if (this.#isHttps()) response.setHeader('strict-transport-security', 'max-age=31536000');
  }

  #isHttps(): boolean {
    return this.#options.tls !== undefined || this.#options.url?.startsWith('https:') === true;
  }

  /** Cookies know no ports: two dashboards on one machine have to name theirs apart. */
  #cookieName(): string {
    return this.#isHttps() ? `__Host-skerry-${this.#port}` : `skerry-${this.#port}`;
  }

  #oidcCookieName(): string {
    return `skerry-oidc-${this.#port}`;
  }

  async #route(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.#refuseOtherHosts(request);
    const url = new URL(request.url ?? '/', 'http://dashboard');
    const { method = '' } = request;
    if (method !== 'GET' && method !== 'HEAD' && method !== 'POST')
      throw new HttpError(405, 'only GET and POST are answered here');
    if (method === 'POST') this.#refuseOtherOrigins(request);
    const { files } = this.#options.assets;
    const page = files.get('index.html');
    if (url.pathname === '/' && page !== undefined) return sendAsset(request, response, page);
    if (url.pathname.startsWith('/assets/')) {
      const asset = files.get(url.pathname.slice('/assets/'.length));
      if (asset === undefined) throw new HttpError(404, 'there is no such file');
      return sendAsset(request, response, asset);
    }
    switch (`${method} ${url.pathname}`) {
      case 'GET /api/session':
        return this.#describeSession(request, response);
      case 'POST /api/sign-in':
        return this.#signIn(request, response);
      case 'GET /sign-in/oidc':
        return this.#beginOidc(response);
      case 'GET /sign-in/oidc/callback':
        return this.#finishOidc(request, response, url);
    }
    const session = this.#sessionOf(request);
    if (session === undefined) throw new HttpError(401, 'sign in first');
    this.#unauthenticated.known(request.socket);
    if (method === 'POST' && !isSameSecret(`${request.headers['x-skerry-csrf']}`, session.csrf))
      throw new HttpError(403, 'this request does not come from the page: load it again');
    const gone = new AbortController();
    response.on('close', () => gone.abort(new Error('the browser has gone')));
    const asked: Asked = { request, response, session, url, signal: gone.signal };
    if (method === 'POST' && url.pathname === '/api/sign-out') {
      this.#sessions.end(session);
      response.setHeader('set-cookie', this.#cookie('', 0));
      return sendJson(request, response, {});
    }
    return session.tenant === undefined
      ? this.#serveOperator(asked, method)
      : this.#serveTenant(asked, method, session.tenant);
  }

  /** A page elsewhere whose name has been made to lead here must not read what is here. */
  #refuseOtherHosts(request: IncomingMessage): void {
    const host = request.headers.host ?? '';
    const { url } = this.#options;
    const name = URL.canParse(`http://${host}`) ? new URL(`http://${host}`).hostname : '';
    if (isLoopback(name) || name === this.#host) return;
    if (url !== undefined && host === new URL(url).host) return;
    const address = name.replace(/^\[|\]$/g, '');
    const found = isIP(address) === 0 ? 'checkHost' : 'checkIP';
    if (name !== '' && this.#certificate?.[found](address) !== undefined) return;
    throw new HttpError(421, 'the dashboard is not reached by this name: it has to be started with it');
  }

  #refuseOtherOrigins(request: IncomingMessage): void {
    const { origin, host } = request.headers;
    const site = request.headers['sec-fetch-site'];
    const isOwn = origin === undefined || (URL.canParse(origin) && new URL(origin).host === host);
    if (!isOwn || (site !== undefined && site !== 'same-origin'))
      throw new HttpError(403, 'this request comes from another page');
  }

  #sessionOf(request: IncomingMessage): Session | undefined {
    const cookie = cookieOf(request, this.#cookieName());
    return cookie === undefined ? undefined : this.#sessions.open(cookie);
  }

  #cookie(value: string, seconds: number): string {
    const secure = this.#isHttps() ? '; Secure' : '';
    return `${this.#cookieName()}=${value}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${seconds}${secure}`;
  }

  async #describeSession(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const session = this.#sessionOf(request);
    const oidc = this.#oidc !== undefined;
    if (session === undefined) return sendJson(request, response, { oidc });
    const { user, tenant, csrf } = session;
    const own = tenant === undefined ? {} : { tenant: tenant.split('/')[1] };
    try {
      const mayCreate = tenant === undefined && (await this.#mayCreate(session));
      return await sendJson(request, response, { oidc, user, csrf, ...own, mayCreate });
    } catch (error) {
      const { status, message } = this.#explain(error);
      if (status !== 401) throw error;
      if (session.as.is !== 'token') throw ownCredentialsRefused();
      // The cookie lives on when its token has expired: without this the page has no form to sign in again.
      this.#sessions.end(session);
      response.setHeader('set-cookie', this.#cookie('', 0));
      return sendJson(request, response, { oidc, problem: message });
    }
  }

  async #mayCreate(session: Session): Promise<boolean> {
    const attributes = { verb: 'create', resource: 'virtualclusters' };
    if (await this.#may(session, attributes)) return true;
    const each = this.#fleet.namespaces().slice(0, maxNamespaces);
    const answers = await Promise.all(
      each.map((namespace) => this.#may(session, { ...attributes, namespace })),
    );
    return answers.includes(true);
  }

  #may(session: Session, attributes: Parameters<Access['may']>[2]): Promise<boolean> {
    return this.#access.may(session.id, this.#clients.of(session), attributes);
  }

  async #signIn(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const forgive = this.#countAttempt(request);
    const parsed = signInSchema.safeParse(await readJson(request));
    if (!parsed.success)
      throw new HttpError(400, 'give a token, and the tenant as NAMESPACE/NAME if it is one of a tenant');
    const given = parsed.data;
    await this.#letIn(request, response, given);
    forgive();
  }

  async #letIn(
    request: IncomingMessage,
    response: ServerResponse,
    given: z.infer<typeof signInSchema>,
  ): Promise<void> {
    if ('link' in given) {
      const giveBack = this.#sessions.redeem(given.link);
      if (giveBack === undefined)
        throw new HttpError(
          401,
          'this link was used already or is too old: "vc-manager dashboard" prints another one',
        );
      const user = await whoAmI(this.#program).catch((error: unknown) => {
        giveBack();
        throw error;
      });
      return this.#begin(request, response, { user, as: { is: 'program' } });
    }
    const { token, tenant } = given;
    const as = { is: 'token', token } as const;
    if (tenant !== undefined)
      return this.#begin(request, response, { ...(await this.#tenantUser(tenant, token)), as });
    const user = await this.#signInConcurrency
      .run('', () => this.#clients.tryOperator(token, whoAmI))
      .catch((error: unknown) => {
        if (error instanceof ConnectionError || error instanceof HttpError) throw error;
        if (error instanceof ApiError && (error.code === 429 || error.code >= 500)) throw error;
        if (error instanceof ApiError && error.code === 403)
          throw new HttpError(
            403,
            'the super cluster knows this token, but its user may not ask who it is: it needs the ClusterRole system:basic-user',
          );
        throw new HttpError(401, 'the super cluster does not know this token');
      });
    return this.#begin(request, response, { user, as });
  }

  /**
   * A user who is not known there, or may not look, learns nothing: not even, by how long it takes, whether the tenant
   * exists.
   */
  async #tenantUser(tenant: string, token: string): Promise<{ user: string; tenant: string }> {
    const refused = this.#holdBack(refusedAfterMs);
    const signal = AbortSignal.timeout(refusedAfterMs);
    const ask = async (client: KubeClient) => ({
      user: await whoAmI(client, signal),
      isAllowed: await isAllowed(client, seesOwn, signal),
    });
    const attempt = async () => this.#clients.tryTenant(await this.#tenantServer(tenant), token, ask);
    const answer = await this.#signInConcurrency.run(tenant, attempt, signal).catch(() => undefined);
    if (answer?.isAllowed === true) return { user: answer.user, tenant };
    await refused;
    throw new HttpError(
      401,
      'not signed in: no such tenant, its API server does not know this token or does not answer, or the token may not "get" virtualclusters.skerry.dev there',
    );
  }

  /** The API server of a tenant, with the tenant's own token: this program's credentials are not used there. */
  async #tenantClient(tenant: string, token: string): Promise<KubeClient> {
    return this.#clients.ofTenant(await this.#tenantServer(tenant), token);
  }

  async #tenantServer(tenant: string): Promise<ConnectionOptions> {
    const vc = this.#fleet.get(refOf(tenant));
    if (vc === undefined) throw new HttpError(404, 'the tenant is gone');
    const server = await this.#kubeconfigOf(vc).server;
    // Who owns the VirtualCluster may write that Secret, and does not choose whom this program dials.
    if (server.server !== serverOf(vc))
      throw new HttpError(
        503,
        'the kubeconfig Secret of this tenant names another server than its VirtualCluster: the manager puts it right within a minute',
      );
    return server;
  }

  /** The owner may make that Secret large, and pages of many users ask for it with every change of any tenant. */
  #kubeconfigOf(vc: VirtualCluster): Omit<KnownKubeconfig, 'atMs'> {
    const atMs = this.#now();
    const key = JSON.stringify([namespacedName(vc.metadata), vc.metadata.uid, serverOf(vc)]);
    for (const [each, known] of this.#kubeconfigs)
      if (atMs - known.atMs >= kubeconfigMs) this.#kubeconfigs.delete(each);
    const known = this.#kubeconfigs.get(key);
    if (known !== undefined) return known;
    const text = this.#backend
      .kubeconfig(this.#program, vc, AbortSignal.timeout(refusedAfterMs))
      .catch((error: unknown) => {
        throw error instanceof ApiError && error.code === 401 ? ownCredentialsRefused() : error;
      });
    const server = text.then(connectionFromSecret);
    server.catch(() => undefined);
    this.#kubeconfigs.set(key, { atMs, text, server });
    return { text, server };
  }

  async #begin(
    request: IncomingMessage,
    response: ServerResponse,
    who: Pick<Session, 'user' | 'as' | 'tenant'>,
  ): Promise<void> {
    this.#setSession(response, who);
    return sendJson(request, response, {});
  }

  #setSession(response: ServerResponse, who: Pick<Session, 'user' | 'as' | 'tenant'>): void {
    const session = this.#sessions.begin(who);
    const seconds = Math.floor((session.expiresAt - this.#now()) / 1_000);
    response.setHeader('set-cookie', this.#cookie(this.#sessions.seal(session), seconds));
  }

  /** Counted before it is known whether it fails: many at once are as many. Returns what takes it back. */
  #countAttempt(request: IncomingMessage, isOidc = false): () => void {
    const now = this.#now();
    if (now - this.#failuresSince > 60_000) {
      this.#failures.clear();
      this.#failuresSince = now;
    }
    const said = request.headers['x-forwarded-for'];
    const remote = request.socket.remoteAddress ?? '';
    const address = clientAddress(remote, said?.toString(), this.#trustedProxies);
    const from = networkOf(address);
    const all = [...this.#failures.values()].reduce((sum, each) => sum + each, 0);
    const own = this.#failures.get(from) ?? 0;
    // Who guesses from many addresses locks out neither the machine itself nor signed-in operators, nor those whom the
    // provider sends back: browsers keep the session from a request that comes from there.
    const session = this.#sessionOf(request);
    const isApart = isOidc || isLoopback(address) || (session !== undefined && session.tenant === undefined);
    if (own >= failuresPerMinute.each || (all >= failuresPerMinute.all && !isApart))
      throw new HttpError(429, 'too many attempts: wait a minute');
    this.#failures.set(from, own + 1);
    return () => this.#failures.set(from, Math.max(0, (this.#failures.get(from) ?? 0) - 1));
  }

  async #beginOidc(response: ServerResponse): Promise<void> {
    if (this.#oidc === undefined) throw new HttpError(404, 'signing in by OIDC is not set up');
    const { url, pending } = await this.#oidc.begin();
    // Lax: the provider's answer comes by a link from its page. It only proves that the same browser began.
    const secure = this.#isHttps() ? '; Secure' : '';
    response.setHeader(
      'set-cookie',
      `${this.#oidcCookieName()}=${this.#sessions.sealPending(pending)}; Path=/sign-in/; HttpOnly; SameSite=Lax; Max-Age=600${secure}`,
    );
    response.writeHead(303, { location: url.href, 'cache-control': 'no-store' }).end();
  }

  async #finishOidc(request: IncomingMessage, response: ServerResponse, url: URL): Promise<void> {
    const pending = this.#sessions.openPending(cookieOf(request, this.#oidcCookieName()) ?? '');
    const isSame = pending !== undefined && isSameSecret(pending.state, url.searchParams.get('state') ?? '');
    if (this.#oidc === undefined || pending === undefined || !isSame)
      throw new HttpError(400, 'this sign-in was not begun in this browser, or took too long: begin again');
    // Each is a call to the provider, but for those that were cancelled there.
    const forgive = this.#countAttempt(request, true);
    let who: { user: string; groups: string[] };
    try {
      who = await this.#oidc.finish(url.search, pending);
    } catch (error) {
      if (isCancelled(error)) forgive();
      const why =
        error instanceof OidcRefusal
          ? error.message
          : `the provider did not confirm it (${messageOf(error)})`;
      throw new HttpError(403, `not signed in: ${why}`);
    }
    forgive();
    this.#setSession(response, { user: who.user, as: { is: 'groups', groups: who.groups } });
    // Not a redirect: the browser would count it as one from the provider's site, and keep back the new cookie.
    response.writeHead(200, { 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-store' });
    response.end('<!doctype html><meta http-equiv="refresh" content="0; url=/"><title>Skerry</title>');
  }

  async #serveOperator(asked: Asked, method: string): Promise<void> {
    const { request, response, session, url, signal } = asked;
    const answer = (body: unknown) => sendJson(request, response, body);
    const client = this.#clients.of(session);
    switch (`${method} ${url.pathname}`) {
      case 'GET /api/tenants': {
        await this.ready(AbortSignal.any([signal, AbortSignal.timeout(firstListMs)]));
        return answer(await this.#changes(session, 0));
      }
      case 'GET /api/stream':
        return this.#stream(asked);
      case 'GET /api/system':
        return answer(await this.#system(session));
      case 'GET /api/versions':
        return answer({ versions: await this.#backend.versions(client, signal) });
    }
    const { namespace = '', name = '', rest = '' } = tenantPath.exec(url.pathname)?.groups ?? {};
    if (name === '') throw new HttpError(404, 'there is no such page');
    const ref = { namespace, name };
    if (method === 'POST') return this.#operatorPost(asked, ref, rest);
    const vc = await this.#visibleTenant(session, ref);
    const program = this.#program;
    const pod = podOf(rest);
    if (pod !== undefined) {
      const traced = await this.#backend.trace({ person: client, program }, vc, pod, signal);
      return answer({ ...traced, stages: podStages });
    }
    switch (rest) {
      case '':
        return answer({
          ...tenantDetail(vc, this.#fleet.assess(vc)),
          may: await this.#mayDo(session, namespace),
        });
      case 'events':
        return answer({ events: await this.#backend.events(client, vc, signal) });
      case 'components':
        return answer({ components: await this.#backend.components(program, vc, signal) });
      case 'pods':
        return answer(
          await this.#podsOf(
            this.#backend.slowest(program, vc, signal),
            () => this.#backend.pods(client, vc, signal),
            signal,
          ),
        );
      case 'logs': {
        const resource = 'virtualclusters';
        await this.#refuseUnless(session, { verb: 'get', resource, subresource: 'log', namespace });
        const component = url.searchParams.get('component') ?? '';
        if (!new RegExp(`^${dnsName}$`).test(component)) throw new HttpError(400, 'name a component');
        const lines = Math.min(2_000, Math.max(1, Number(url.searchParams.get('lines')) || 200));
        return answer({ lines: await this.#backend.logs(program, vc, { component, lines, signal }) });
      }
    }
    throw new HttpError(404, 'there is no such page');
  }

  async #operatorPost(
    { request, response, session, signal }: Asked,
    ref: TenantRef,
    rest: string,
  ): Promise<void> {
    const client = this.#clients.of(session);
    const body = await readJson(request);
    if (rest === 'kubeconfig') {
      const vc = await this.#visibleTenant(session, ref);
      const kubeconfig = await this.#backend.operatorKubeconfig(client, vc, { user: session.user, signal });
      return sendJson(request, response, { kubeconfig });
    }
    const parsed = actionSchema.safeParse(body);
    if (!parsed.success || (rest !== 'act' && rest !== 'preview'))
      throw new HttpError(400, parsed.success ? 'there is no such page' : z.prettifyError(parsed.error));
    const action = actionOf(parsed.data, ref, rest);
    if (action.do === 'upgrade')
      await this.#refuseUnless(session, {
        verb: 'patch',
        resource: 'virtualclusters',
        namespace: ref.namespace,
        name: ref.name,
      });
    const superCluster = { person: client, program: this.#program };
    if (rest === 'preview')
      return sendJson(request, response, await this.#backend.preview(superCluster, ref, action, signal));
    return sendJson(request, response, {
      message: await this.#backend.act(superCluster, ref, action, signal),
    });
  }

  /** Throws when the super cluster does not allow it to the person. */
  async #refuseUnless(session: Session, attributes: Attributes & { namespace: string }): Promise<void> {
    if (await this.#may(session, attributes)) return;
    const { verb, resource, subresource, namespace } = attributes;
    const what = subresource === undefined ? resource : `${resource}/${subresource}`;
    throw new HttpError(403, `${session.user} may not "${verb}" ${what} in namespace ${namespace}`);
  }

  /** Which buttons the user may press. The API server decides again when one is pressed. */
  async #mayDo(session: Session, namespace: string): Promise<Record<string, boolean>> {
    const virtualclusters = { resource: 'virtualclusters', namespace };
    const questions = {
      change: { verb: 'patch', ...virtualclusters },
      delete: { verb: 'delete', ...virtualclusters },
      logs: { verb: 'get', subresource: 'log', ...virtualclusters },
      kubeconfig: { verb: 'get', group: '', resource: 'secrets', namespace },
    };
    const answers = await Promise.all(
      Object.entries(questions).map(async ([name, attributes]) => [
        name,
        await this.#may(session, attributes),
      ]),
    );
    return Object.fromEntries(answers) as Record<string, boolean>;
  }

  /** Which namespaces' VirtualClusters the user may list. `notice`: why these may not be all of them. */
  async #visible(session: Session): Promise<{ isVisible: (namespace: string) => boolean; notice?: string }> {
    if (await this.#may(session, seesAll)) return { isVisible: () => true };
    const all = this.#fleet.namespaces();
    const answers = await Promise.all(
      all
        .slice(0, maxNamespaces)
        .map(async (namespace) => ((await this.#may(session, { ...seesAll, namespace })) ? [namespace] : [])),
    );
    const visible = new Set(answers.flat());
    const isVisible = (namespace: string) => visible.has(namespace);
    if (all.length <= maxNamespaces) return { isVisible };
    const notice =
      `tenants are in more than ${maxNamespaces} namespaces, of which only the first ${maxNamespaces} were looked ` +
      'through: who may "list" virtualclusters in all namespaces sees all of them';
    return { isVisible, notice };
  }

  /** Throws the same for a tenant that the user may not see as for one that does not exist. */
  async #visibleTenant(session: Session, ref: TenantRef): Promise<VirtualCluster> {
    const isVisible =
      (await this.#may(session, seesAll)) ||
      (await this.#may(session, { ...seesAll, namespace: ref.namespace }));
    const vc = isVisible ? this.#fleet.get(ref) : undefined;
    if (vc === undefined)
      throw new HttpError(
        404,
        `there is no tenant ${ref.namespace}/${ref.name}, or ${session.user} may not see it`,
      );
    return vc;
  }

  async #system(session: Session): Promise<object> {
    this.#look();
    const { view } = this.#syncers;
    if (await this.#may(session, seesAll)) return view;
    const { isVisible } = await this.#visible(session);
    const loads = view.loads.filter(({ tenant }) => isVisible(tenant.split('/')[0] ?? ''));
    return { at: view.at, overMs: view.overMs, syncers: [], loads };
  }

  /** Sends what changes, as server-sent events, until the browser goes or the person may not see it any more. */
  async #stream({ request, response, session, url, signal }: Asked): Promise<void> {
    const shares = this.#streams[session.tenant === undefined ? 'operators' : 'tenants'];
    const whose = session.tenant ?? session.user;
    const tooMany = new HttpError(503, 'too many pages are open');
    if (shares.refuses(whose) !== undefined) throw tooMany;
    const taken = new AbortController();
    const release = shares.take(whose, () => taken.abort(tooMany));
    const ends = AbortSignal.any([signal, taken.signal]);
    let wake = (): void => undefined;
    const shown = session.tenant === undefined ? [this.#fleet, this.#syncers] : [this.#fleet];
    const subscriptions = shown.map((each) => each.subscribe(() => wake()));
    try {
      response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
      const stream = new EventStream(response, ends, unreadMs);
      // A proxy may hold back what is small.
      await stream.comment(' '.repeat(2_048));
      const id = request.headers['last-event-id'] ?? url.searchParams.get('since');
      let since = Number(id) || 0;
      let problem: string | undefined;
      let systemAt = 0;
      while (!ends.aborted) {
        const changed = Promise.withResolvers<void>();
        wake = changed.resolve;
        if (this.#sessionOf(request) === undefined) throw new HttpError(401, 'signed out');
        const event =
          session.tenant === undefined
            ? await this.#changes(session, since)
            : await this.#ownChange(session, since);
        const isNew = event.version !== since || event.isWhole === true || event.problem !== problem;
        ({ version: since, problem } = event);
        if (isNew) await stream.event('tenants', event, since);
        if (session.tenant === undefined) this.#look();
        if (session.tenant === undefined && this.#syncers.view.at !== systemAt) {
          systemAt = this.#syncers.view.at;
          await stream.event('system', await this.#system(session));
        }
        if (!isNew) await stream.comment('still here');
        await Promise.race([
          changed.promise,
          setTimeout(Math.min(heartbeatMs, refreshMs), undefined, { signal: ends, ref: false }),
        ]);
        await setTimeout(coalesceMs, undefined, { signal: ends, ref: false });
      }
      ends.throwIfAborted();
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof SlowReaderError || response.writableNeedDrain) {
        response.destroy();
        return;
      }
      const { status, message } = this.#explain(taken.signal.aborted ? tooMany : error);
      response.write(`event: ended\ndata: ${JSON.stringify({ status, message })}\n\n`);
    } finally {
      for (const unsubscribe of subscriptions) unsubscribe();
      release();
      response.end();
    }
  }

  /** `problem`: why that may not be all there is. */
  async #changes(session: Session, since: number): Promise<StreamedChange & Changes> {
    const { isVisible, notice } = await this.#visible(session);
    const problem = this.#fleet.problem ?? notice;
    return { ...this.#fleet.changes(since, isVisible), ...(problem === undefined ? {} : { problem }) };
  }

  /** Says that something has changed, and nothing of what. */
  async #ownChange(session: Session, since: number): Promise<StreamedChange> {
    const tenant = session.tenant ?? '';
    await this.#tenantConcurrency.run(tenant, () => this.#ownAccess(session, tenant));
    const { version, rows, gone } = this.#fleet.changes(
      since,
      (namespace) => namespace === refOf(tenant).namespace,
    );
    const isOwn = rows.some((row) => namespacedName(row) === tenant) || gone.includes(tenant);
    return { version: isOwn ? version : since };
  }

  async #serveTenant(asked: Asked, method: string, tenant: string): Promise<void> {
    const { session, url, signal } = asked;
    if (method !== 'GET' || url.pathname !== '/api/stream')
      return this.#tenantConcurrency.run(tenant, () => this.#answerTenant(asked, method, tenant), signal);
    await this.#tenantConcurrency.run(tenant, () => this.#ownAccess(session, tenant), signal);
    return this.#stream(asked);
  }

  async #answerTenant(asked: Asked, method: string, tenant: string): Promise<void> {
    const { request, response, session, url, signal } = asked;
    const answer = (body: unknown) => sendJson(request, response, body);
    const client = await this.#ownAccess(session, tenant);
    const vc = this.#fleet.get(refOf(tenant));
    if (vc === undefined) throw new HttpError(404, 'the tenant is gone');
    const may = (attributes: Parameters<Access['may']>[2]) =>
      this.#access.may(session.id, client, attributes);
    switch (`${method} ${url.pathname}`) {
      case 'GET /api/own':
        return answer({
          ...ownTenant(vc, this.#fleet.assess(vc)),
          may: { kubeconfig: await may(everything), pods: await may(seesPods) },
        });
      case 'GET /api/own/events':
        return answer(await this.#backend.refusals(client, signal));
      case 'POST /api/own/kubeconfig': {
        await readJson(request);
        // It is that of the tenant's admins.
        if (!(await may(everything)))
          throw new HttpError(403, 'only admins of the tenant get its kubeconfig');
        return answer({ kubeconfig: await this.#kubeconfigOf(vc).text });
      }
    }
    if (method === 'GET' && url.pathname.startsWith('/api/own/pods')) {
      if (!(await may(seesPods)))
        throw new HttpError(403, `${session.user} may not list the pods of the tenant`);
      const pod = podOf(url.pathname.slice('/api/own/'.length));
      if (pod !== undefined) {
        const superCluster = { person: this.#program, program: this.#program };
        const answered = this.#backend.trace(superCluster, vc, pod, signal);
        const traced = await this.#forTenant(vc, 'trace', answered, signal);
        return answer({ ...withoutPlace(traced), stages: podStages });
      }
      const list = await this.#podsOf(
        this.#forTenant(vc, 'slowest', this.#backend.slowest(this.#program, vc, signal), signal),
        () => this.#backend.ownPods(client, signal),
        signal,
      );
      return answer({ ...list, pods: list.pods.map(withoutPlace) });
    }
    throw new HttpError(404, 'there is no such page');
  }

  /**
   * Where no trace of a pod is known, or no syncer can be asked: with the pods that there are, if the user may list them.
   * `problem`: why none can be asked.
   */
  async #podsOf(
    slowest: Promise<PodList>,
    list: () => Promise<ListedPods>,
    signal: AbortSignal,
  ): Promise<PodList & Partial<ListedPods> & { readonly problem?: string }> {
    const traced = await slowest.catch((error: unknown) => ({ error }));
    signal.throwIfAborted();
    if ('pods' in traced && traced.pods.length > 0) return traced;
    const found = await list().catch(() => undefined);
    signal.throwIfAborted();
    if ('pods' in traced) return { ...traced, ...found };
    if (found === undefined) throw traced.error;
    const problem = this.#explain(traced.error).message;
    return { known: 0, ready: 0, spans: [], pods: [], problem, ...found };
  }

  /**
   * An answer for a tenant. What this program meets on its way to it names syncers, addresses and commands of operators,
   * who are told it once.
   */
  async #forTenant<T>(
    vc: VirtualCluster,
    question: 'trace' | 'slowest',
    answer: Promise<T>,
    signal: AbortSignal,
  ): Promise<T> {
    const name = namespacedName(vc.metadata);
    const key = `${name} ${question}`;
    try {
      const answered = await answer;
      this.#podProblems.delete(key);
      return answered;
    } catch (error) {
      signal.throwIfAborted();
      if (this.#explain(error).status === 404) throw new HttpError(404, 'there is no such pod');
      const problem = `the tenant ${name} was not told of its pods: ${messageOf(error)}`;
      if (problem !== this.#podProblems.get(key)) this.#options.onProblem?.(problem);
      for (const known of this.#podProblems.keys())
        if (this.#fleet.get(refOf(known.split(' ')[0] ?? '')) === undefined) this.#podProblems.delete(known);
      this.#podProblems.set(key, problem);
      throw new HttpError(503, 'there is no answer at the moment; try again later, or ask the operator');
    }
  }

  /** Throws when the tenant's API server does not know the token any more, or it may not look. */
  async #ownAccess(session: Session, tenant: string): Promise<KubeClient> {
    if (session.as.is !== 'token') throw new HttpError(401, 'sign in first');
    const client = await this.#tenantClient(tenant, session.as.token);
    if (!(await this.#access.may(session.id, client, seesOwn)))
      throw new HttpError(
        403,
        `${session.user} may not "get" virtualclusters.skerry.dev in the tenant any more`,
      );
    return client;
  }
}

/** Not the fault of who is signed in, who must not be signed out for it. */
function ownCredentialsRefused(): HttpError {
  return new HttpError(502, 'the super cluster does not accept the credentials of the dashboard itself');
}

/** Of a tenant, as its Secret had it at a time. */
interface KnownKubeconfig {
  readonly atMs: number;
  readonly text: Promise<string>;
  readonly server: Promise<ConnectionOptions>;
}

/** Where people reach its API server. */
function serverOf({ status }: VirtualCluster): string | undefined {
  return status?.gateway?.server ?? status?.endpoint;
}

/** What a stream tells of tenants. */
interface StreamedChange {
  readonly version: number;
  readonly isWhole?: boolean;
  readonly problem?: string;
}

function rangesOf(cidrs: readonly string[]): BlockList {
  const ranges = new BlockList();
  for (const cidr of cidrs) {
    const [address = '', prefix] = cidr.split('/');
    const family = isIP(address);
    ranges.addSubnet(address, Number(prefix ?? (family === 6 ? 128 : 32)), family === 6 ? 'ipv6' : 'ipv4');
  }
  return ranges;
}

/** What shows an operator the tenants of a namespace, or of all. */
const seesAll = { verb: 'list', resource: 'virtualclusters' };
/** What the tenant's own RBAC has to allow. Its API server knows no such resource; its RBAC does not mind. */
const seesOwn = { verb: 'get', resource: 'virtualclusters' };
const seesPods = { verb: 'list', group: '', resource: 'pods' };
const everything = { verb: '*', group: '*', resource: '*' };

/** Nodes are named as the super cluster names them, which a tenant need not know. */
function withoutPlace<T extends Partial<Pick<TracedPod, 'node' | 'tenant'>>>(
  report: T,
): Omit<T, 'node' | 'tenant'> {
  const { node: _node, tenant: _tenant, ...rest } = report;
  return rest;
}

/** The pod that a path is about. */
function podOf(path: string): { namespace: string; name: string } | undefined {
  const { namespace, name } = podPath.exec(path)?.groups ?? {};
  return namespace === undefined || name === undefined ? undefined : { namespace, name };
}

function actionOf(asked: z.infer<typeof actionSchema>, { name }: TenantRef, rest: string): Action {
  if (asked.do !== 'delete') return asked;
  if (rest === 'act' && asked.confirm !== name)
    throw new HttpError(400, `nothing was deleted: type the name of the tenant, ${name}, to confirm`);
  const { uid, snapshotFirst } = asked;
  return { do: 'delete', uid, snapshotFirst };
}

function refOf(tenant: string): TenantRef {
  const [namespace = '', name = ''] = tenant.split('/');
  return { namespace, name };
}
