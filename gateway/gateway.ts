import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { type Clock, onAbort } from '../kube/index.ts';
import { ListenError } from '../program/addresses.ts';
import { splice } from '../program/splice.ts';
import { longestHello, readClientHello, readProxyHeader } from './client-hello.ts';
import type { GatewayMetrics, Refusal } from './gateway-metrics.ts';
import type { Readiness } from './readiness.ts';
import type { Route, Routes } from './routes.ts';
import type { TenantLimits } from './tenant-limits.ts';

interface GatewayOptions {
  routes: Pick<Routes, 'find' | 'byId'>;
  /** Wakes the tenant; resolves when its API server is ready, false when that takes too long or the signal is aborted. */
  wake: (route: Route, signal: AbortSignal) => Promise<boolean>;
  readiness: Pick<Readiness, 'suspect' | 'isSuspect' | 'untilReady'>;
  /** Resolves when all routes are known: until then clients wait. */
  routesKnown: Promise<unknown>;
  limits: TenantLimits;
  metrics: GatewayMetrics;
  /** Connections at once, with those of clients that have not said yet where to. */
  connections: number;
  /** Whether each connection begins with a header of the PROXY protocol. */
  proxyProtocol: boolean;
  /** How long the tenant's API server may take to accept. Default: 10 s. */
  connectTimeoutMs?: number;
  clock: Pick<Clock, 'monotonic'>;
}

/** Clients whose server name is not known yet; beyond it the one that has waited longest goes. */
export const maxHellos = 1_024;
/** What a client may send before its API server is connected to. */
const longestStart = longestHello + 16 * 1024;
/** How long a client may take until its server name is known. */
const helloTimeoutMs = 5_000;
/** A peer that has gone without a word is noticed. */
const keepAliveMs = 30_000;
const socketOptions = {
  allowHalfOpen: true,
  noDelay: true,
  keepAlive: true,
  keepAliveInitialDelay: keepAliveMs,
};
/** How long one direction stays open when the other one has ended. */
const halfOpenMs = 60_000;

/** TLS alerts, in the clear as before any handshake: clients show them. */
const alerts: Partial<Record<Refusal, number>> = {
  unknown: 112,
  nameless: 112,
  connections: 80,
  rate: 80,
  full: 80,
  unreachable: 80,
  asleep: 80,
  background: 80,
};

/**
 * Passes connections on to the tenants' API servers, by the server name that a client sends in the clear. What is in a
 * connection is between the client and the API server: certificates of both reach the other untouched.
 */
export class Gateway {
  readonly #o: GatewayOptions;
  readonly #server: Server;
  /** Both ends of each connection. */
  readonly #sockets = new Set<Socket>();
  /** In the order in which they came. */
  readonly #hellos = new Set<Socket>();
  readonly #byTenant = new Map<string, { id: string; sockets: Set<Socket>; users: number }>();
  /** Ids of tenants that were connected to since `takeUsed`. */
  #used = new Set<string>();
  #open = 0;
  /** By port; a port is one tenant's. */
  readonly #own = new Map<number, { id: string; server: Server }>();
  #host = '127.0.0.1';
  /** One after the other. */
  #listening: Promise<unknown> = Promise.resolve();

  constructor(options: GatewayOptions) {
    this.#o = options;
    this.#server = createServer(socketOptions, (client) => this.#accept(client));
  }

  /** Returns the port. Throws what the system says, and can be tried again then. */
  async listen(port: number, host: string): Promise<number> {
    this.#host = host;
    await this.#listen(this.#server, port);
    return (this.#server.address() as AddressInfo).port;
  }

  /**
   * Listens at the ports that tenants have for themselves, and no more at those of tenants that are gone. Returns what
   * cannot be listened at, in words; the next call tries it again.
   */
  listenForTenants(routes: readonly Pick<Route, 'id' | 'ownPort'>[]): Promise<string[]> {
    const done = this.#listening.then(() => this.#listenForTenants(routes));
    this.#listening = done;
    return done;
  }

  async #listenForTenants(routes: readonly Pick<Route, 'id' | 'ownPort'>[]): Promise<string[]> {
    const wanted = new Map<number, string>();
    for (const { id, ownPort } of routes) if (ownPort !== undefined) wanted.set(ownPort, id);
    for (const [port, { id, server }] of this.#own) {
      if (wanted.get(port) === id) continue;
      this.#own.delete(port);
      // What is open goes on.
      void closed(server);
    }
    const problems: string[] = [];
    for (const [port, id] of wanted) {
      if (this.#own.has(port) || !this.#server.listening) continue;
      const server = createServer(socketOptions, (client) => this.#accept(client, id));
      try {
        await this.#listen(server, port);
        // It may have ended meanwhile.
        if (this.#server.listening) this.#own.set(port, { id, server });
        else void closed(server);
      } catch (error) {
        problems.push(problemAt(port, id, this.#host, error as NodeJS.ErrnoException));
      }
    }
    return problems;
  }

  async #listen(server: Server, port: number): Promise<void> {
    server.listen({ port, host: this.#host, backlog: 4_096 });
    await once(server, 'listening');
    // An accept that fails, for lack of file descriptors, is no reason to end.
    server.on('error', () => this.#o.metrics.refused('full'));
  }

  /** Ids of tenants that have a connection, or had one since the last call. */
  takeUsed(): string[] {
    for (const { id, users } of this.#byTenant.values()) if (users > 0) this.#used.add(id);
    const used = [...this.#used];
    this.#used = new Set();
    return used;
  }

  /** Ends the connections of tenants that are not there any more. */
  keepOnly(tenants: ReadonlySet<string>): void {
    for (const [tenant, { sockets }] of this.#byTenant)
      if (!tenants.has(tenant)) for (const socket of sockets) socket.destroy();
    this.#o.limits.keep(tenants);
  }

  /** Accepts no more connections, and waits for those that there are until the signal is aborted: then they are cut. */
  async close(signal: AbortSignal): Promise<void> {
    if (!this.#server.listening) return;
    const servers = [this.#server, ...[...this.#own.values()].map(({ server }) => server)];
    const ended = Promise.all(servers.map(closed));
    this.#own.clear();
    for (const client of this.#hellos) client.destroy();
    const forget = onAbort(signal, () => {
      for (const socket of this.#sockets) socket.destroy();
    });
    await ended;
    forget();
    // What clients have said last is delivered, and no answer waited for.
    for (const socket of this.#sockets) socket.destroySoon();
  }

  /** False when there are too many already. */
  #count(client: Socket): boolean {
    this.#track(client);
    if (this.#open >= this.#o.connections) {
      this.#refuse(client, 'full');
      return false;
    }
    this.#open += 1;
    client.once('close', () => {
      this.#open -= 1;
    });
    return true;
  }

  /** `id`: of the tenant whose own port it came to. There a client need not say a name, but it has to speak TLS. */
  #accept(client: Socket, id?: string): void {
    if (!this.#count(client)) return;
    if (this.#hellos.size >= maxHellos) {
      const [oldest] = this.#hellos;
      if (oldest !== undefined) this.#refuse(oldest, 'slow');
    }
    this.#hellos.add(client);
    const timer = setTimeout(() => this.#refuse(client, 'slow'), helloTimeoutMs);
    const start = new Start(longestStart);
    let isProxied = this.#o.proxyProtocol;
    let needed = 1;
    const done = (): void => {
      clearTimeout(timer);
      this.#hellos.delete(client);
      client.off('data', read);
      client.off('end', ended);
    };
    const read = (chunk: Buffer): void => {
      if (!start.add(chunk)) {
        this.#refuse(client, 'malformed');
        return;
      }
      if (isProxied) {
        const header = readProxyHeader(start.bytes);
        if (header.kind === 'incomplete') return;
        if (header.kind === 'invalid') {
          this.#refuse(client, 'malformed');
          return;
        }
        start.drop(header.length);
        isProxied = false;
      }
      // A hello that trickles in is looked at no more often than it can be complete.
      if (start.bytes.length < needed) return;
      const hello = readClientHello(start.bytes);
      if (hello.kind === 'incomplete') {
        needed = hello.needed;
        return;
      }
      done();
      client.pause();
      if (hello.kind === 'invalid') {
        this.#refuse(client, 'malformed');
        return;
      }
      const name = hello.kind === 'named' ? hello.name : undefined;
      if (id !== undefined) {
        const { routes } = this.#o;
        const named = name === undefined ? undefined : routes.find(name);
        // It looks for another tenant. Pods, and kubeconfigs for this port, name what is no tenant's.
        const isOther = named !== undefined && named.id !== id;
        this.#pass(client, isOther ? undefined : (named ?? routes.byId(id)), start.bytes);
        return;
      }
      if (name === undefined) {
        this.#refuse(client, 'nameless');
        return;
      }
      void this.#o.routesKnown.then(() => {
        if (!client.destroyed) this.#pass(client, this.#o.routes.find(name), start.bytes);
      });
    };
    const ended = (): void => this.#refuse(client, 'malformed');
    client.on('data', read);
    client.on('end', ended);
    client.once('close', done);
  }

  #pass(client: Socket, route: Route | undefined, start: Buffer): void {
    if (route === undefined) this.#refuse(client, 'unknown');
    else this.#connect(client, route, start);
  }

  #connect(client: Socket, route: Route, start: Buffer): void {
    const { limits, metrics } = this.#o;
    const opened = limits.open(route.tenant, () => {
      metrics.refused('share', route.tenant);
      client.destroy();
    });
    if (typeof opened === 'string') {
      this.#refuse(client, opened, route.tenant);
      return;
    }
    const use = this.#byTenant.get(route.tenant) ?? { id: route.id, sockets: new Set(), users: 0 };
    const counts = route.isBackground === true ? 0 : 1;
    use.sockets.add(client);
    use.users += counts;
    this.#byTenant.set(route.tenant, use);
    if (counts > 0) this.#used.add(route.id);
    const closed = metrics.opened(route.tenant);
    client.once('close', () => {
      opened();
      use.sockets.delete(client);
      use.users -= counts;
      if (use.sockets.size === 0 && this.#byTenant.get(route.tenant) === use)
        this.#byTenant.delete(route.tenant);
      closed();
    });
    if (route.isAsleep) void this.#wakeAndDial(client, route, start);
    else if (this.#o.readiness.isSuspect(route)) void this.#dialWhenReady(client, route, start);
    else this.#dial(client, route, start);
  }

  /** Holds the client meanwhile: it waits for the server's first word. */
  async #wakeAndDial(client: Socket, route: Route, start: Buffer): Promise<void> {
    const { isBackground } = route;
    if (isBackground === true && this.#o.routes.byId(route.id)?.isPaused !== true) {
      this.#refuse(client, 'background', route.tenant);
      return;
    }
    const gone = new AbortController();
    client.once('close', () => gone.abort(new Error('the client has gone')));
    const isAwake = await this.#o.wake(route, gone.signal);
    if (client.destroyed) return;
    const now = this.#o.routes.byId(route.id);
    if (isAwake && now?.tenant === route.tenant)
      this.#dial(client, isBackground === true ? { ...now, isBackground } : now, start);
    else this.#refuse(client, 'asleep', route.tenant);
  }

  /** Holds the client while its API server is started anew. */
  async #dialWhenReady(client: Socket, route: Route, start: Buffer): Promise<void> {
    await this.#o.readiness.untilReady(route, () => this.#leadsTo(route));
    if (client.destroyed) return;
    const now = this.#o.routes.byId(route.id);
    if (now?.tenant !== route.tenant) this.#refuse(client, 'unreachable', route.tenant);
    else if (now.isAsleep) void this.#wakeAndDial(client, route, start);
    else {
      const next = route.isBackground === true ? { ...now, isBackground: true } : now;
      this.#dial(client, next, start, isSameBackend(now, route));
    }
  }

  /** Whether the tenant's clients still go there: another API server may have taken its place. */
  #leadsTo(route: Route): boolean {
    const now = this.#o.routes.byId(route.id);
    return now !== undefined && now.tenant === route.tenant && isSameBackend(now, route);
  }

  /** `isLast`: it has waited for its API server already. */
  #dial(client: Socket, route: Route, start: Buffer, isLast = false): void {
    const { metrics, clock, readiness, connectTimeoutMs = 10_000 } = this.#o;
    const startedMs = clock.monotonic();
    const server = connect({ host: route.host, port: route.port, ...socketOptions });
    this.#track(server);
    const timer = setTimeout(() => server.destroy(), connectTimeoutMs);
    let isConnected = false;
    server.once('connect', () => {
      isConnected = true;
      clearTimeout(timer);
      metrics.connected((clock.monotonic() - startedMs) / 1_000);
      if (start.length > 0) server.write(start);
      // It is leaving, perhaps.
      server.once('end', () => {
        if (!client.readableEnded && this.#leadsTo(route)) readiness.suspect(route);
      });
      // An end is passed on, as an API server may answer after it.
      void splice(client, server, { halfOpenMs });
    });
    server.once('close', () => {
      clearTimeout(timer);
      // A client that has gone wakes no tenant.
      if (isConnected || client.destroyed) return;
      if (this.#o.routes.byId(route.id)?.isAsleep === true) {
        // It was just being stopped.
        void this.#wakeAndDial(client, route, start);
      } else if (!isLast) {
        readiness.suspect(route);
        void this.#dialWhenReady(client, route, start);
      } else this.#refuse(client, 'unreachable', route.tenant);
    });
    client.once('close', () => {
      if (!isConnected) server.destroy();
    });
  }

  #track(socket: Socket): void {
    this.#sockets.add(socket);
    // `close` follows.
    socket.on('error', () => undefined);
    socket.once('close', () => this.#sockets.delete(socket));
  }

  #refuse(client: Socket, why: Refusal, tenant?: string): void {
    if (client.destroyed || client.writableEnded) return;
    this.#o.metrics.refused(why, tenant);
    this.#hellos.delete(client);
    const alert = alerts[why];
    if (alert === undefined) {
      client.destroy();
      return;
    }
    // Fatal, and the last word: the client is not waited for.
    client.resume();
    client.end(Buffer.from([21, 3, 3, 0, 2, 2, alert]), () => client.destroySoon());
  }
}

function problemAt(port: number, id: string, host: string, cause: NodeJS.ErrnoException): string {
  const remedy =
    cause.code === 'EADDRINUSE'
      ? 'the port is taken, perhaps by a gateway of another stack, to which clients then come: end it, or give one of the ' +
        'stacks another range with --gateway-ports of its manager'
      : undefined;
  return new ListenError(`serve ${id}`, host, port, cause, remedy).message;
}

function isSameBackend(a: Route, b: Route): boolean {
  return a.host === b.host && a.port === b.port;
}

/** No more connections; those that there are go on. Resolves when they have ended. */
function closed(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()));
}

/** What a client has sent so far, in one piece that grows by doubling. */
class Start {
  readonly #limit: number;
  #buffer: Buffer = Buffer.alloc(0);
  #length = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }

  /** False when it is too much. */
  add(chunk: Buffer): boolean {
    const length = this.#length + chunk.length;
    if (length > this.#limit) return false;
    if (this.#length === 0) this.#buffer = chunk;
    else {
      if (length > this.#buffer.length) {
        const larger = Buffer.alloc(Math.max(length, 2 * this.#buffer.length));
        this.#buffer.copy(larger, 0, 0, this.#length);
        this.#buffer = larger;
      }
      chunk.copy(this.#buffer, this.#length);
    }
    this.#length = length;
    return true;
  }

  drop(count: number): void {
    this.#buffer = Buffer.from(this.#buffer.subarray(count, this.#length));
    this.#length -= count;
  }
}

/** What is open beside connections: a port for each of some hundred tenants, what goes to the super cluster, metrics. */
const otherFiles = 1_024;

/** In words, that the limit of open files ends connections before `--connections` does; undefined: it does not. */
export function tooFewOpenFiles(limit: number | undefined, connections: number): string | undefined {
  // One to the client, and one to the API server.
  const needed = 2 * connections + maxHellos + otherFiles;
  if (limit === undefined || limit >= needed) return undefined;
  const safe = Math.floor((limit - maxHellos - otherFiles) / 2);
  return (
    `${limit} files may be open, and --connections ${connections} can take ${needed}: clients may be refused before there are ` +
    'so many connections, whichever tenant they belong to. Raise the hard limit of open files (ulimit -Hn; LimitNOFILE= of the ' +
    'unit, of containerd or of Docker; ulimits.nofile with Docker Compose)' +
    (safe < 1 ? '' : `, or start the gateway with --connections ${safe}`)
  );
}
