import {
  type Clock,
  type ConnectionOptions,
  type KubeClient,
  type KubeObject,
  onAbort,
} from '../../kube/index.ts';
import { isLoopback } from '../../program/addresses.ts';
import type { Lookup } from '../context.ts';
import type { Pod } from '../kinds/pods/types.ts';
import type { CurrentTenant } from '../watchdog/watchdog.ts';
import { type KubeletTenant, pairOf, superPodsOf } from './find-pod.ts';
import { KubeletServer } from './kubelet-server.ts';
import { type ClientAuthorities, KubeletTenants } from './kubelet-tenants.ts';
import { ListResponses } from './list-responses.ts';
import { MetricsApi } from './metrics-api.ts';
import { keepRegistered } from './metrics-registration.ts';
import { NodeApi } from './node-api.ts';
import { CommandRuns, PodStreams } from './pod-streams.ts';
import { followServingIdentity, type ServingIdentity } from './serving-certificate.ts';
import { StreamBandwidth } from './stream-bandwidth.ts';
import { SuperCalls } from './super-calls.ts';
import { UsageReader } from './usage-sources.ts';

interface KubeletProxyOptions {
  superClient: KubeClient;
  /** The same API server and user, for upgraded connections, whose bytes are passed on unchanged. */
  superConnection: ConnectionOptions;
  superObjects: Lookup;
  /** The nodes of the super cluster. */
  nodes: () => Iterable<KubeObject>;
  /** Where to listen, and the address at which tenants' API servers reach it. */
  host: string;
  port: number;
  /** Where to listen when the port is taken. */
  fallbackPort?: number | undefined;
  advertise: string;
  /** Skerry's own namespace, where the manager writes the serving certificate. */
  namespace: string;
  /** Connections that one tenant may have at once. Default 512. */
  socketsPerTenant?: number;
  /** What logs and streams of one tenant may carry; those of all tenants together, four times that. */
  streamBytesPerSecond: number;
  atWork?: CurrentTenant;
  clock: Clock;
  logger: { info(fields: object, message: string): void; warn(fields: object, message: string): void };
}

/** As many tenants may use all of their bandwidth at once. */
const tenantsAtFullRate = 4;

/** A tenant, and how to reach its API server. */
interface ServedTenant extends KubeletTenant {
  readonly client: KubeClient;
}

interface Registration {
  readonly client: KubeClient;
  readonly stop: AbortController;
}

/**
 * Stands in for the kubelets of all tenants' nodes and for the server of metrics.k8s.io: passes requests of a tenant's
 * API server on to the tenant's own pods in the super cluster.
 */
export class KubeletProxy {
  readonly #options: KubeletProxyOptions;
  readonly #tenants: KubeletTenants;
  readonly #calls: SuperCalls;
  readonly #bandwidth: StreamBandwidth;
  readonly #runs: CommandRuns;
  readonly #usage: UsageReader;
  readonly #registrations = new Map<string, Registration>();
  /** Background work that ends with the signal of `listen`. */
  readonly #working = new Set<Promise<void>>();
  #server: KubeletServer | undefined;
  #port = 0;
  #ca = '';

  constructor(options: KubeletProxyOptions) {
    const { clock, superClient, superConnection, superObjects, nodes } = options;
    const { socketsPerTenant = 512, streamBytesPerSecond } = options;
    this.#options = options;
    this.#tenants = new KubeletTenants({ clock, socketsPerTenant });
    this.#calls = new SuperCalls(superConnection);
    this.#bandwidth = new StreamBandwidth({
      clock,
      tenantBytesPerSecond: streamBytesPerSecond,
      totalBytesPerSecond: streamBytesPerSecond * tenantsAtFullRate,
    });
    this.#runs = new CommandRuns(superConnection, this.#bandwidth);
    this.#usage = new UsageReader({ superClient, superObjects, nodes, clock });
  }

  /** What the pods of a tenant use now, as quantities; undefined where nothing says so. Throws when the source fails. */
  async used(uid: string, signal: AbortSignal): Promise<{ cpu: string; memory: string } | undefined> {
    const tenant = this.#tenants.get(uid);
    if (tenant === undefined || !tenant.isComplete) return undefined;
    return this.usedBy(
      superPodsOf(tenant).filter((superPod) => pairOf(tenant, superPod) !== undefined),
      uid,
      signal,
    );
  }

  /** The same of pods of the super cluster: those of a tenant that has no session. */
  async usedBy(
    pods: readonly Pod[],
    uid: string,
    signal: AbortSignal,
  ): Promise<{ cpu: string; memory: string } | undefined> {
    const usage = await this.#usage.read(pods, uid, signal);
    if (usage === undefined) return undefined;
    let nanoCores = 0;
    let bytes = 0;
    for (const { containers } of usage.values()) {
      for (const container of containers) {
        nanoCores += container.nanoCores;
        bytes += container.workingSetBytes;
      }
    }
    return { cpu: `${Math.ceil(nanoCores / 1e6)}m`, memory: `${Math.ceil(bytes / 1_024)}Ki` };
  }

  /** Number of open connections. */
  get connections(): number {
    return this.#server?.connections ?? 0;
  }

  /**
   * Listens as soon as the manager has made a certificate, and switches to each renewed one, until aborted.
   * Returns the port. Throws when it is taken, and the signal's reason.
   */
  async listen(signal: AbortSignal): Promise<number> {
    const {
      superClient: client,
      clock,
      logger,
      host,
      port,
      fallbackPort,
      advertise,
      namespace,
    } = this.#options;
    const first = Promise.withResolvers<ServingIdentity>();
    const onIdentity = (identity: ServingIdentity): void => {
      this.#ca = identity.ca;
      first.resolve(identity);
      if (this.#server === undefined) return;
      this.#server.renew(identity.certificate);
      logger.info({}, 'the serving certificate was renewed');
    };
    const onWait = (why: string): void =>
      logger.info({ why }, 'waiting for the serving certificate that vc-manager makes');
    this.#track(followServingIdentity({ client, clock, namespace, onIdentity, onWait }, signal));
    const release = onAbort(signal, () => first.reject(signal.reason));
    const { certificate } = await first.promise.finally(release);
    const onUsageFault = (error: unknown): void =>
      logger.warn({ err: error }, 'the usage of pods cannot be read');
    const answers = new ListResponses(clock);
    const metricsApi = new MetricsApi({
      answers,
      reader: this.#usage,
      nodes: this.#options.nodes,
      clock,
      onFault: onUsageFault,
    });
    const nodeApi = new NodeApi({ answers, reader: this.#usage, clock, onFault: onUsageFault });
    this.#server = new KubeletServer({
      certificate,
      tenants: this.#tenants,
      streams: new PodStreams(this.#calls, this.#bandwidth),
      run: (tenant, pod, response) => this.#runs.run(tenant, pod, response),
      nodeApi: (tenant, asked, response) => nodeApi.answer(tenant, asked, response),
      metricsApi: (tenant, asked, response) => metricsApi.answer(tenant, asked, response),
      atWork: this.#options.atWork,
      onFault: (error) => logger.warn({ err: error }, 'a request to a kubelet failed'),
    });
    this.#port = await this.#server.listen(host, port).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EADDRINUSE' || fallbackPort === undefined || this.#server === undefined)
        throw error;
      return this.#server.listen(host, fallbackPort);
    });
    if (isLoopback(advertise))
      logger.info({ advertise }, 'tenants get no metrics API: no Service leads to an address on loopback');
    return this.#port;
  }

  /** Starts to serve this tenant. Call it again when the tenant's credentials or caches have changed. */
  serve(tenant: ServedTenant, authorities: ClientAuthorities | undefined): void {
    const { uid, id, namespace, name } = tenant.context().tenant;
    const { logger } = this.#options;
    if (authorities === undefined) {
      const message = 'the Secret for the syncer has no authorities: logs, exec and top do not work';
      logger.warn({ tenant: `${namespace}/${name}` }, message);
      this.leave(uid);
      return;
    }
    try {
      this.#tenants.serve(uid, id, authorities, tenant);
    } catch (error) {
      const message = 'the authorities in the Secret for the syncer are not those of this tenant';
      logger.warn({ tenant: `${namespace}/${name}`, err: error }, message);
      this.leave(uid);
      return;
    }
    this.#register(uid, tenant.client);
  }

  /** Stops to serve this tenant, and closes all its connections at once. */
  leave(uid: string): void {
    this.#tenants.leave(uid);
    this.#registrations.get(uid)?.stop.abort(new Error('tenant left'));
    this.#registrations.delete(uid);
  }

  /** Closes open connections. Call it after the signal of `listen`. */
  async close(): Promise<void> {
    for (const uid of [...this.#registrations.keys()]) this.leave(uid);
    await this.#server?.close();
    this.#calls.close();
    await this.#runs.close();
    await Promise.allSettled(this.#working);
  }

  #register(uid: string, client: KubeClient): void {
    if (isLoopback(this.#options.advertise) || this.#registrations.get(uid)?.client === client) return;
    this.#registrations.get(uid)?.stop.abort(new Error('its API server is reached otherwise'));
    const { clock, advertise, logger } = this.#options;
    const stop = new AbortController();
    const registering = keepRegistered(
      {
        client,
        clock,
        endpoint: { address: advertise, port: this.#port },
        ca: () => this.#ca,
        hasSource: (signal) => this.#usage.hasSource(signal),
        onProblem: (error) => logger.info({ err: error }, 'the metrics API cannot be registered yet'),
      },
      stop.signal,
    );
    this.#registrations.set(uid, { client, stop });
    this.#track(registering);
  }

  #track(work: Promise<void>): void {
    const tracked = work.catch(() => undefined).finally(() => this.#working.delete(tracked));
    this.#working.add(tracked);
  }
}
