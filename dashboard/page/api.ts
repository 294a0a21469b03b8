import type { PodList as SlowestPods, PodReport as TracedPod } from '../../api/pod-report.ts';
import type { TenantDetail as DetailRow, ListedPod, OwnTenant as OwnRow } from '../types.ts';

export interface SessionInfo {
  oidc: boolean;
  /** Why somebody who was signed in is not any more. */
  problem?: string;
  user?: string;
  csrf?: string;
  tenant?: string;
  mayCreate?: boolean;
}

export interface TenantDetail extends DetailRow {
  readonly may: {
    readonly change: boolean;
    readonly delete: boolean;
    readonly logs: boolean;
    readonly kubeconfig: boolean;
  };
}

export interface OwnTenant extends OwnRow {
  readonly may: { readonly kubeconfig: boolean; readonly pods: boolean };
}

/** Tenants are not told where. */
export interface PodReport extends Omit<TracedPod, 'tenant' | 'shares'> {
  /** By `StageOwner`. */
  readonly shares: Readonly<Record<string, number>>;
  readonly source?: string;
  /** What happens in each stage, by its name. */
  readonly stages?: Readonly<Record<string, string>>;
}

export interface PodList extends Pick<SlowestPods, 'known' | 'ready' | 'total'> {
  /** Where no way is known. */
  readonly listed?: readonly ListedPod[];
  readonly isCut?: boolean;
  /** Why the syncer could not be asked. */
  readonly problem?: string;
  readonly pods: readonly PodReport[];
}

/** The server refused, with a message for people. */
export class Refused extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Of what a server says that is being started, or whose API server is. */
export function isPassing(status: number): boolean {
  return status === 0 || status === 429 || status >= 500;
}

/** After a failure that may pass. */
export const tryAgainMs = 5_000;

let csrf = '';

export function useCsrf(token: string): void {
  csrf = token;
}

/** Throws Refused. */
export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return answerOf<T>(await fetch(path, { ...(signal === undefined ? {} : { signal }) }).catch(unreachable));
}

/** Throws Refused. */
export async function post<T>(path: string, body: object = {}, signal?: AbortSignal): Promise<T> {
  const headers = { 'content-type': 'application/json', 'x-skerry-csrf': csrf };
  const request = { method: 'POST', headers, body: JSON.stringify(body) };
  return answerOf<T>(
    await fetch(path, { ...request, ...(signal === undefined ? {} : { signal }) }).catch(unreachable),
  );
}

function unreachable(error: unknown): never {
  throwIfAborted(error);
  throw new Refused(0, 'The dashboard does not answer. Is it still running?');
}

function brokenOff(error: unknown): never {
  throwIfAborted(error);
  throw new Refused(0, 'The answer of the dashboard broke off, or something else answered in its place.');
}

function throwIfAborted(error: unknown): void {
  if (error instanceof DOMException && error.name === 'AbortError') throw error;
}

async function answerOf<T>(response: Response): Promise<T> {
  if (response.ok) return (await response.json().catch(brokenOff)) as T;
  const { message } = (await response.json().catch(() => ({}))) as { message?: string };
  throw new Refused(response.status, message ?? `HTTP ${response.status}`);
}

export function tenantPath(tenant: { namespace: string; name: string }, rest = ''): string {
  return `/api/tenants/${tenant.namespace}/${tenant.name}${rest}`;
}
