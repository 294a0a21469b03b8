/** Where the syncer listens and how much it does at once. */
export interface SyncerOptions {
  /** Reconciles at once, over all tenants. */
  workers: number;
  /** Host and port of `/metrics`, `/healthz` and `/readyz`. */
  metrics: { host: string; port: number };
  /** Where it answers as the kubelet of tenants' nodes, and the address by which tenants reach it. */
  kubelet: { host: string; port: number; advertise: string };
  deniedKeyPrefixes: readonly string[];
  transparentKeyPrefixes: readonly string[];
  /** Off only to measure what fairness is worth. */
  fair: boolean;
}

export const defaultOptions: SyncerOptions = {
  workers: 60,
  metrics: { host: '127.0.0.1', port: 10451 },
  kubelet: { host: '127.0.0.1', port: 10450, advertise: '127.0.0.1' },
  deniedKeyPrefixes: [],
  transparentKeyPrefixes: [],
  fair: true,
};
