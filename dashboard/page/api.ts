/** What the server answers; `views.ts` and `syncers.ts` beside it say what the fields mean. */
export interface SessionInfo {
  oidc: boolean;
  user?: string;
  csrf?: string;
  tenant?: string;
  mayCreate?: boolean;
}

export interface Job {
  kind: string;
  id: string;
  state: string;
  target?: string;
  step?: string;
  attempts: number;
  startedAt: string;
  finishedAt?: string;
  holder?: string;
  message?: string;
}

export type Health = 'well' | 'busy' | 'asleep' | 'limited' | 'wrong';

export interface Tenant {
  namespace: string;
  name: string;
  phase: string;
  health: Health;
  version: string;
  createdAt: string;
  weight: number;
  pods?: number;
  services?: number;
  cpu?: string;
  memory?: string;
  requestsCpu?: string;
  requestsMemory?: string;
  fullest?: { resource: string; share: number };
  problems: string[];
  advice: string[];
  job?: Job;
  certificatesDue?: string;
}

export interface Quota {
  resource: string;
  used?: string;
  allowed: string;
  share?: number;
}

export interface Condition {
  type: string;
  status: string;
  reason: string;
  message: string;
  since: string;
}

export interface Snapshot {
  name: string;
  at: string;
  reason: string;
  version: string;
  entries: number;
  bytes: number;
}

export interface TenantDetail extends Tenant {
  uid: string;
  facts: [string, string][];
  conditions: Condition[];
  quota: Quota[];
  jobs: Job[];
  snapshots: Snapshot[];
  may: { change: boolean; delete: boolean; logs: boolean; kubeconfig: boolean };
}

export interface OwnTenant {
  name: string;
  phase: string;
  health: Health;
  version: string;
  createdAt: string;
  pods?: number;
  services?: number;
  cpu?: string;
  memory?: string;
  quota: Quota[];
  conditions: Condition[];
  jobs: Job[];
  certificatesDue?: string;
  snapshots: Snapshot[];
  podSecurity?: string;
  may: { kubeconfig: boolean; pods: boolean };
}

export interface EventRow {
  at: string;
  type: string;
  reason: string;
  object: string;
  count: number;
  message: string;
}

export interface Component {
  name: string;
  state: string;
  startedAt?: string;
  restarts: number;
  lastExit?: string;
}

export interface Syncer {
  name: string;
  holder: string;
  renewedAt: string;
  buckets?: number;
  tenants?: number;
  window?: number;
  cpuSeconds?: number;
  memoryBytes?: number;
  uptimeSeconds?: number;
  problem?: string;
}

export interface Load {
  tenant: string;
  waitMeanMs?: number;
  waitP95Ms?: number;
  items: number;
  share: number;
  parked: number;
  scheduling: number;
  refused: number;
  queued: number;
}

export interface System {
  at: number;
  overMs: number;
  syncers: Syncer[];
  loads: Load[];
  problem?: string;
}

export interface Span {
  name: string;
  whose: string;
  atMs: number;
  tookMs: number;
}

export interface PodReport {
  namespace: string;
  name: string;
  node?: string;
  seenAt: string;
  state: string;
  totalMs: number;
  shares: Record<string, number>;
  spans: Span[];
  refusal?: string;
  waitsFor?: { name: string; whose: string; sinceMs: number };
  source?: string;
  /** What happens in each stage, by its name. */
  stages?: Record<string, string>;
}

export interface ListedPod {
  namespace: string;
  name: string;
  phase: string;
  isReady: boolean;
  createdAt: string;
  node?: string;
}

export interface PodList {
  /** Where no way is known. */
  listed?: ListedPod[];
  isCut?: boolean;
  known: number;
  ready: number;
  total?: { p50Ms: number; p99Ms: number };
  pods: PodReport[];
}

/** The server refused, with a message for people. */
export class Refused extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

let csrf = '';

export function useCsrf(token: string): void {
  csrf = token;
}

/** Throws Refused. */
export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return answerOf<T>(await fetch(path, { ...(signal === undefined ? {} : { signal }) }).catch(unreachable));
}

/** Throws Refused. */
export async function post<T>(path: string, body: object = {}): Promise<T> {
  const headers = { 'content-type': 'application/json', 'x-skerry-csrf': csrf };
  return answerOf<T>(
    await fetch(path, { method: 'POST', headers, body: JSON.stringify(body) }).catch(unreachable),
  );
}

function unreachable(error: unknown): never {
  if (error instanceof DOMException && error.name === 'AbortError') throw error;
  throw new Refused(0, 'The dashboard does not answer. Is it still running?');
}

async function answerOf<T>(response: Response): Promise<T> {
  if (response.ok) return (await response.json()) as T;
  const { message } = (await response.json().catch(() => ({}))) as { message?: string };
  throw new Refused(response.status, message ?? `HTTP ${response.status}`);
}

export function tenantPath(tenant: { namespace: string; name: string }, rest = ''): string {
  return `/api/tenants/${tenant.namespace}/${tenant.name}${rest}`;
}
