/** What all prom-client metrics with labels can do. */
interface Labelled {
  remove(labels: Record<string, string>): void;
}

/**
 * The series of one metric that carry a tenant, so that they can go when the tenant does.
 * Label objects are made once per series: making and hashing them is most of the cost of an observation.
 */
export class TenantSeries<Label extends string> {
  readonly #metric: Labelled;
  readonly #tenantLabel: string;
  readonly #otherLabels: readonly Label[];
  /** By tenant, then by the values of the other labels. */
  readonly #series = new Map<string, Map<string, Record<string, string>>>();

  constructor(metric: Labelled, tenantLabel: string, otherLabels: readonly Label[]) {
    this.#metric = metric;
    this.#tenantLabel = tenantLabel;
    this.#otherLabels = otherLabels;
  }

  /** The labels of one series; `values` in the order of the other labels. */
  labels(tenant: string, ...values: string[]): Record<string, string> {
    let ofTenant = this.#series.get(tenant);
    if (ofTenant === undefined) {
      ofTenant = new Map();
      this.#series.set(tenant, ofTenant);
    }
    const key = values.length === 1 ? (values[0] as string) : values.join('\0');
    let labels = ofTenant.get(key);
    if (labels === undefined) {
      labels = { [this.#tenantLabel]: tenant };
      for (const [i, label] of this.#otherLabels.entries()) labels[label] = values[i] ?? '';
      ofTenant.set(key, labels);
    }
    return labels;
  }

  remove(tenant: string): void {
    for (const labels of this.#series.get(tenant)?.values() ?? []) this.#metric.remove(labels);
    this.#series.delete(tenant);
  }
}
