import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';

/** Why a connection was not passed on; `share`: not any longer. */
const refusals = [
  'malformed',
  'slow',
  'nameless',
  'unknown',
  'connections',
  'rate',
  'full',
  'share',
  'unreachable',
  'asleep',
  'background',
] as const;
export type Refusal = (typeof refusals)[number];

/** Of tenants beyond so many all values are counted together. */
const maxTenants = 1_000;
const otherTenants = 'other';

export class GatewayMetrics {
  readonly #registry = new Registry();
  readonly #tenants = new Set<string>();
  readonly #open = new Gauge({
    name: 'skerry_gateway_connections',
    help: 'Connections that are passed on, by tenant.',
    labelNames: ['tenant'],
    registers: [this.#registry],
  });
  readonly #opened = new Counter({
    name: 'skerry_gateway_connections_total',
    help: 'Connections that were passed on since the start, by tenant.',
    labelNames: ['tenant'],
    registers: [this.#registry],
  });
  readonly #refused = new Counter({
    name: 'skerry_gateway_refused_total',
    help: 'Connections that were not passed on, or were ended for those of other tenants, by reason, and by tenant where that was known.',
    labelNames: ['reason', 'tenant'],
    registers: [this.#registry],
  });
  readonly #connect = new Histogram({
    name: 'skerry_gateway_connect_seconds',
    help: 'How long the API server of a tenant took to accept a connection.',
    buckets: [0.001, 0.005, 0.02, 0.1, 0.5, 2, 10],
    registers: [this.#registry],
  });

  constructor(options: { processMetrics?: boolean } = {}) {
    if (options.processMetrics === true) collectDefaultMetrics({ register: this.#registry });
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  render(): Promise<string> {
    return this.#registry.metrics();
  }

  /** Forgets the others. */
  keepOnly(tenants: ReadonlySet<string>): void {
    for (const tenant of this.#tenants) {
      if (tenants.has(tenant)) continue;
      this.#tenants.delete(tenant);
      this.#open.remove({ tenant });
      this.#opened.remove({ tenant });
      for (const reason of refusals) this.#refused.remove({ reason, tenant });
    }
  }

  /** Returns what is to be called when it is closed. */
  opened(tenant: string): () => void {
    const label = this.#label(tenant);
    this.#open.inc({ tenant: label });
    this.#opened.inc({ tenant: label });
    return () => {
      // Of a tenant that is gone nothing is shown any more.
      if (label === otherTenants || this.#tenants.has(label)) this.#open.dec({ tenant: label });
    };
  }

  connected(seconds: number): void {
    this.#connect.observe(seconds);
  }

  refused(reason: Refusal, tenant?: string): void {
    this.#refused.inc({ reason, tenant: tenant === undefined ? '' : this.#label(tenant) });
  }

  #label(tenant: string): string {
    if (this.#tenants.has(tenant)) return tenant;
    if (this.#tenants.size >= maxTenants) return otherTenants;
    this.#tenants.add(tenant);
    return tenant;
  }
}
