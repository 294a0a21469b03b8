import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import {
  createSecureServer,
  type Http2SecureServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type ServerHttp2Session,
} from 'node:http2';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { KubeClient } from '../client.ts';
import { Connection, type ConnectionOptions } from '../connection.ts';
import type { StatusCause } from '../errors.ts';
import { apiVersionOf } from '../resources.ts';
import type { KubeObject, ObjectRef, Resource } from '../types.ts';
import { FakeApi } from './fake-api.ts';
import {
  parseRequest,
  partial,
  Refusal,
  type RequestInfo,
  refusals,
  type Selector,
  selector,
} from './fake-request.ts';
import { type Change, FakeStorage, type Snapshot } from './fake-storage.ts';
import { freePort } from './free-port.ts';
import type { TestCertificates } from './test-certificates.ts';

/** What can go wrong with one request. */
export type Fault =
  /** An answer that refuses. With `text`, the body is that instead of a Status. */
  | {
      kind: 'status';
      code: number;
      reason?: string;
      message?: string;
      retryAfterSeconds?: number;
      causes?: StatusCause[];
      text?: string;
    }
  /** The connection is cut before the answer. */
  | { kind: 'reset' }
  /** The answer is cut half-way, with the connection. */
  | { kind: 'reset-in-body' }
  /** The answer stops half-way as if it were complete. */
  | { kind: 'half-body' }
  /** No answer, ever. */
  | { kind: 'hang' }
  /** A watch that starts well and sends only this ERROR event. */
  | { kind: 'error-event'; code: number; reason: string; causes?: StatusCause[] }
  /** A watch that ends at once. */
  | { kind: 'end' };

export interface FaultRule {
  fault: Fault;
  /** Absent fields match everything. */
  verb?: RequestInfo['verb'];
  plural?: string;
  name?: string;
  subresource?: string;
  /** True: only requests for a further page. False: only those for a first one. */
  continued?: boolean;
  /** How often; default once. */
  times?: number;
}

/** Rules in the order in which they were given; the first that matches is used up by one. */
class Faults {
  #rules: (FaultRule & { left: number })[] = [];

  add(rule: FaultRule): () => void {
    const entry = { ...rule, left: rule.times ?? 1 };
    this.#rules.push(entry);
    return () => {
      this.#rules = this.#rules.filter((each) => each !== entry);
    };
  }

  clear(): void {
    this.#rules = [];
  }

  take(info: RequestInfo): Fault | undefined {
    const rule = this.#rules.find(
      (each) =>
        (each.verb === undefined || each.verb === info.verb) &&
        (each.plural === undefined || each.plural === info.plural) &&
        (each.name === undefined || each.name === info.name) &&
        (each.subresource === undefined || each.subresource === info.subresource) &&
        (each.continued === undefined || each.continued === info.query.has('continue')),
    );
    if (rule === undefined) return undefined;
    rule.left -= 1;
    if (rule.left === 0) this.#rules = this.#rules.filter((each) => each !== rule);
    return rule.fault;
  }
}

/** The HTTP/2 compatibility API answers to the same calls. */
type Response = ServerResponse;

/** One open watch, to be disturbed by tests. */
export class FakeWatch {
  readonly info: RequestInfo;
  readonly #response: Response;
  readonly #matches: Selector;
  readonly #cut: () => void;
  readonly #after: number;
  #silent = false;
  /** Bytes per write; 0: whole lines. */
  splitBytes = 0;

  constructor(info: RequestInfo, response: Response, after: number, cut: () => void) {
    this.info = info;
    this.#response = response;
    this.#after = after;
    this.#cut = cut;
    this.#matches = selector(info.query.get('labelSelector'), info.query.get('fieldSelector'));
  }

  /** What this watch shows of a change: an object that enters or leaves its selector is added or deleted. */
  change(change: Change): void {
    const { type, object, previous } = change;
    if (change.collection !== this.info.collection || change.version <= this.#after) return;
    if (this.info.namespace !== undefined && object.metadata.namespace !== this.info.namespace) return;
    const before = type !== 'ADDED' && previous !== undefined && this.#matches(previous);
    const after = type !== 'DELETED' && this.#matches(object);
    if (before && after) this.#object('MODIFIED', object);
    else if (after) this.#object('ADDED', object);
    else if (before) {
      // As servers do: the last state that matched, with the version of the change.
      const { resourceVersion } = object.metadata;
      this.#object('DELETED', {
        ...previous,
        metadata: { ...previous.metadata, resourceVersion },
      } as KubeObject);
    }
  }

  initial(objects: readonly KubeObject[]): void {
    for (const object of objects) if (this.#matches(object)) this.#object('ADDED', object);
  }

  bookmark(version: number, annotations?: Record<string, string>): void {
    if (!this.info.query.has('allowWatchBookmarks')) return;
    if (version <= this.#after && annotations === undefined) return;
    const metadata = { resourceVersion: String(version), creationTimestamp: null, annotations };
    this.#event('BOOKMARK', { apiVersion: this.info.apiVersion, kind: 'Bookmark', metadata });
  }

  /** An ERROR event and the end of the stream. */
  error(code: number, reason: string, details: ConstructorParameters<typeof Refusal>[3] = {}): void {
    this.#event('ERROR', new Refusal(code, reason, `${reason} in the stream`, details).status);
    this.end();
  }

  /** Ends the stream as a server does whose time is up. */
  end(): void {
    this.#response.end();
  }

  /** Cuts the connection under the stream, other streams on it included. */
  reset(): void {
    this.#cut();
  }

  /** From now on nothing is sent, and the connection stays open. */
  silence(): void {
    this.#silent = true;
  }

  /** Sends the first half of an event and stops there. */
  halfLine(then: 'end' | 'reset'): void {
    this.#response.write('{"type":"ADDED","object":{"metadata":{"name":"cut off","na', () => {
      if (then === 'end') this.end();
      else this.reset();
    });
  }

  /** Sends bytes as they are. */
  raw(bytes: Buffer): void {
    this.#write(bytes);
  }

  #object(type: string, object: KubeObject): void {
    this.#event(type, this.info.metadataOnly ? partial(object) : object);
  }

  #event(type: string, object: unknown): void {
    if (!this.#silent) this.#write(Buffer.from(`${JSON.stringify({ type, object })}\n`));
  }

  #write(bytes: Buffer): void {
    const step = this.splitBytes || bytes.length;
    for (let at = 0; at < bytes.length; at += step) this.#response.write(bytes.subarray(at, at + step));
  }
}

/** Carries out the faults that replace the answer. */
function refuse(fault: Fault | undefined, response: Response, cut: () => void): boolean {
  if (fault?.kind === 'hang') return true;
  if (fault?.kind === 'reset') {
    cut();
    return true;
  }
  if (fault?.kind !== 'status') return false;
  const { code, reason = '', message = `injected ${code}`, retryAfterSeconds, causes, text } = fault;
  if (retryAfterSeconds !== undefined) response.setHeader('retry-after', String(retryAfterSeconds));
  if (text !== undefined) send(response, code, text, 'text/plain');
  else
    send(response, code, JSON.stringify(new Refusal(code, reason, message, causes ? { causes } : {}).status));
  return true;
}

function send(response: Response, code: number, text: string, type = 'application/json'): void {
  response.writeHead(code, { 'content-type': type });
  response.end(text);
}

/** Throws a Refusal when the body is not JSON. */
async function readBody(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString();
  if (text === '') return undefined;
  try {
    return JSON.parse(text);
  } catch {
    throw refusals.badRequest('the body is not JSON');
  }
}

export interface FakeApiServerOptions {
  /** With certificates the server speaks HTTPS, HTTP/2 and HTTP/1.1; without, plain HTTP/1.1. */
  certificates?: TestCertificates;
  /** Only clients with a certificate of the CA are let in. */
  requireClientCertificate?: boolean;
  /** False: HTTP/1.1 only. */
  http2?: boolean;
  /** Plurals whose status is a subresource. Default: those of the built-in resources that have one. */
  statusResources?: string[];
}

// Node's own default of 5 s would end connections that a stalled machine is about to use.
const keepAliveTimeout = 60_000;

const withStatus = [
  'pods',
  'services',
  'namespaces',
  'nodes',
  'persistentvolumes',
  'persistentvolumeclaims',
  'deployments',
  'virtualclusters',
];

/**
 * An API server in memory on a loopback port: CRUD with preconditions, patches, paging, watches
 * with history and bookmarks, for any resource and without schemas, and every fault that a client
 * must survive. What real servers do and this one does not: validation, admission, defaults,
 * strategic merge, field ownership, existence of namespaces.
 */
export class FakeApiServer {
  /** Every request, in order of arrival. */
  readonly requests: RequestInfo[] = [];
  readonly #options: FakeApiServerOptions;
  readonly #storage: FakeStorage;
  readonly #api: FakeApi;
  readonly #faults = new Faults();
  readonly #watches = new Set<FakeWatch>();
  readonly #sockets = new Set<Socket>();
  readonly #sessions = new Set<ServerHttp2Session>();
  #server: Server | Http2SecureServer | undefined;
  #port = 0;
  #observers: (() => void)[] = [];

  private constructor(options: FakeApiServerOptions) {
    this.#options = options;
    this.#storage = new FakeStorage((change) => {
      for (const watch of this.#watches) watch.change(change);
      this.#observe();
    });
    this.#api = new FakeApi(this.#storage, options.statusResources ?? withStatus);
  }

  static async start(options: FakeApiServerOptions = {}): Promise<FakeApiServer> {
    const server = new FakeApiServer(options);
    await server.listen();
    return server;
  }

  get url(): string {
    return `${this.#options.certificates ? 'https' : 'http'}://127.0.0.1:${this.#port}`;
  }

  get connectionOptions(): ConnectionOptions {
    const { certificates } = this.#options;
    if (certificates === undefined) return { server: this.url };
    return {
      server: this.url,
      ca: certificates.ca,
      cert: certificates.client.cert,
      key: certificates.client.key,
    };
  }

  get resourceVersion(): string {
    return String(this.#storage.version);
  }

  get openConnections(): number {
    return this.#sockets.size;
  }

  /** Starts again after `stop`, on the same port and with the same data. */
  async listen(): Promise<void> {
    const { certificates, requireClientCertificate = false, http2 = true } = this.#options;
    const handler = (request: IncomingMessage, response: Response): void => {
      void this.#handle(request, response);
    };
    if (certificates === undefined) {
      this.#server = createServer({ keepAliveTimeout }, handler);
    } else {
      this.#server = createSecureServer(
        {
          ...certificates.server,
          ca: certificates.ca,
          requestCert: true,
          rejectUnauthorized: requireClientCertificate,
          allowHTTP1: true,
          ...(http2 ? {} : { ALPNProtocols: ['http/1.1'] }),
        },
        handler as unknown as (request: Http2ServerRequest, response: Http2ServerResponse) => void,
      );
      // Read by `allowHTTP1`.
      Object.assign(this.#server, { keepAliveTimeout });
      this.#server.on('session', (session: ServerHttp2Session) => {
        this.#sessions.add(session);
        session.on('error', ignore).on('close', () => this.#sessions.delete(session));
      });
      this.#server.on('secureConnection', (socket: TLSSocket) => socket.on('error', ignore));
    }
    this.#server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.on('error', ignore).on('close', () => {
        this.#sockets.delete(socket);
        this.#observe();
      });
    });
    if (this.#port === 0) this.#port = await freePort();
    this.#server.listen(this.#port, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  /** Cuts every connection and refuses new ones. */
  async stop(): Promise<void> {
    const server = this.#server;
    if (server === undefined) return;
    this.#server = undefined;
    const closed = once(server, 'close');
    server.close();
    this.resetConnections();
    await closed;
  }

  /** Cuts every connection, as a crash or a broken network does. */
  resetConnections(): void {
    this.#watches.clear();
    for (const session of this.#sessions) session.destroy();
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  /** Tells HTTP/2 clients to open no more streams on their connections; open streams go on. */
  goAway(): void {
    for (const session of this.#sessions) session.goaway();
  }

  /** Changes the state as another client would, status included. Creates the object, with its UID if it has one, or replaces it. */
  put(resource: Resource, object: KubeObject): KubeObject {
    const typed = { apiVersion: apiVersionOf(resource), kind: resource.kind, ...object };
    return this.#storage.put(collectionOf(resource), typed, object.metadata.uid);
  }

  /** Removes an object at once, whatever its finalizers. */
  remove(resource: Resource, ref: ObjectRef): KubeObject | undefined {
    return this.#storage.remove(collectionOf(resource), ref);
  }

  get(resource: Resource, ref: ObjectRef): KubeObject | undefined {
    return this.#storage.get(collectionOf(resource), ref);
  }

  list(resource: Resource): KubeObject[] {
    return this.#storage.list(collectionOf(resource));
  }

  /** Raises the resourceVersion, as a write to an unwatched resource does. */
  bump(): void {
    this.#storage.bump();
  }

  /** Forgets history: older resourceVersions and continue tokens are answered with 410 from now on. */
  compact(): void {
    this.#storage.compact();
  }

  snapshot(): Snapshot {
    return this.#storage.snapshot();
  }

  /** A server that comes back with older data: versions run backwards, and all connections break. */
  restore(snapshot: Snapshot): void {
    this.#storage.restore(snapshot);
    this.#api.forgetPages();
    this.resetConnections();
  }

  inject(rule: FaultRule): () => void {
    return this.#faults.add(rule);
  }

  clearFaults(): void {
    this.#faults.clear();
  }

  /** The open watches, of one resource or all. */
  watches(plural?: string): FakeWatch[] {
    return [...this.#watches].filter(({ info }) => plural === undefined || info.plural === plural);
  }

  bookmark(): void {
    for (const watch of this.#watches) watch.bookmark(this.#storage.version);
  }

  /** Resolves when the predicate holds; asked again after every request, every change and every end of a connection. */
  async until(predicate: () => boolean): Promise<void> {
    while (!predicate()) await new Promise<void>((resolve) => this.#observers.push(resolve));
  }

  #observe(): void {
    for (const observer of this.#observers.splice(0)) observer();
  }

  async #handle(request: IncomingMessage, response: Response): Promise<void> {
    const info: RequestInfo = {
      ...parseRequest(request.method ?? 'GET', request.url ?? '/'),
      metadataOnly: /as=PartialObjectMetadata/.test(request.headers.accept ?? ''),
    };
    const cut = (): void => {
      // The compatibility API hides its socket; destroying the session takes the socket along.
      if ('stream' in request) (request as unknown as Http2ServerRequest).stream.session?.destroy();
      else request.socket.destroy();
    };
    response.on('error', ignore);
    try {
      const body = await readBody(request);
      this.requests.push(info);
      const fault = this.#faults.take(info);
      if (info.verb === 'watch') {
        this.#watch(info, response, cut, fault);
      } else {
        this.#answer(info, body, String(request.headers['content-type'] ?? ''), response, cut, fault);
      }
    } catch (error) {
      if (error instanceof Refusal) send(response, error.status.code, JSON.stringify(error.status));
      else if (isAborted(error)) cut();
      else send(response, 500, String(error));
    } finally {
      this.#observe();
    }
  }

  #answer(
    info: RequestInfo,
    body: unknown,
    contentType: string,
    response: Response,
    cut: () => void,
    fault: Fault | undefined,
  ): void {
    if (refuse(fault, response, cut)) return;
    if (info.path === '/readyz' || info.path === '/livez') {
      send(response, 200, 'ok', 'text/plain');
      return;
    }
    if (info.path === '/version') {
      send(response, 200, JSON.stringify({ major: '1', minor: '36', gitVersion: 'v1.36.0' }));
      return;
    }
    if (info.path === '/apis') {
      send(response, 200, JSON.stringify({ kind: 'APIGroupList', apiVersion: 'v1', groups: [] }));
      return;
    }
    const reply = this.#api.handle(info, body, contentType);
    if (info.metadataOnly && info.verb === 'list') {
      const list = reply.body as { items: KubeObject[] };
      reply.body = { ...list, items: list.items.map(partial) };
    }
    const text = JSON.stringify(reply.body);
    if (fault?.kind === 'half-body' || fault?.kind === 'reset-in-body') {
      response.writeHead(reply.code, { 'content-type': 'application/json' });
      response.write(text.slice(0, text.length / 2), () => {
        if (fault.kind === 'half-body') response.end();
        else cut();
      });
      return;
    }
    send(response, reply.code, text);
  }

  #watch(info: RequestInfo, response: Response, cut: () => void, fault: Fault | undefined): void {
    if (refuse(fault, response, cut)) return;
    const asked = Number(info.query.get('resourceVersion') || 0);
    response.writeHead(200, { 'content-type': 'application/json' });
    // Without a first write, HTTP/1.1 headers wait for the first event.
    response.flushHeaders();
    const watch = new FakeWatch(info, response, asked === 0 ? this.#storage.version : asked, cut);
    if (fault?.kind === 'error-event') {
      watch.error(fault.code, fault.reason, fault.causes ? { causes: fault.causes } : {});
    } else if (fault?.kind === 'end') {
      watch.end();
    } else if (asked > 0 && asked < this.#storage.compacted) {
      const { code, reason = '' } = refusals.expired().status;
      watch.error(code, reason);
    } else {
      this.#open(watch, info, response, asked);
    }
  }

  #open(watch: FakeWatch, info: RequestInfo, response: Response, asked: number): void {
    if (asked === 0) {
      const objects = this.#storage.list(info.collection);
      watch.initial(
        objects.filter(({ metadata }) => (info.namespace ?? metadata.namespace) === metadata.namespace),
      );
      if (info.query.get('sendInitialEvents') === 'true')
        watch.bookmark(this.#storage.version, { 'k8s.io/initial-events-end': 'true' });
    } else {
      for (const change of this.#storage.changesAfter(asked)) watch.change(change);
    }
    this.#watches.add(watch);
    const timeoutSeconds = Number(info.query.get('timeoutSeconds') ?? 0);
    const timer =
      timeoutSeconds > 0 ? setTimeout(() => watch.end(), timeoutSeconds * 1000).unref() : undefined;
    response.on('close', () => {
      clearTimeout(timer);
      this.#watches.delete(watch);
      this.#observe();
    });
  }
}

function collectionOf(resource: Resource): string {
  return `${resource.group}/${resource.version}/${resource.plural}`;
}

function isAborted(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ECONNRESET';
}

function ignore(): void {}

export interface FakeCluster extends AsyncDisposable {
  readonly server: FakeApiServer;
  readonly client: KubeClient;
}

/** A fake API server with a client; `await using` closes both. */
export async function startFakeCluster(
  options: FakeApiServerOptions & { connection?: Partial<ConnectionOptions> } = {},
): Promise<FakeCluster> {
  const server = await FakeApiServer.start(options);
  const connection = new Connection({ ...server.connectionOptions, ...options.connection });
  return {
    server,
    client: new KubeClient(connection),
    async [Symbol.asyncDispose]() {
      await connection.close();
      await server.stop();
    },
  };
}
