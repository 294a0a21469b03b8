import { annotationKeys, labelKeys } from '../../../api/labels.ts';
import { type KubeClient, type KubeObject, resources } from '../../../kube/index.ts';
import { CliError } from '../errors.ts';

/** A syncer that says in its Lease where it can be asked. */
export interface Replica {
  name: string;
  url: string;
}

/** What one of them answered. */
export type Answer<T> =
  | { is: 'answer'; replica: Replica; body: T }
  /** It does not serve the tenant, or does not know the pod. */
  | { is: 'UnknownTenant' | 'UnknownPod'; replica: Replica }
  | { is: 'unreachable'; replica: Replica; why: string };

interface Lease extends KubeObject {
  spec?: { holderIdentity?: string };
}

const component = `${labelKeys.component}=vc-syncer`;
const patienceMs = 10_000;

/** The syncers that have a Lease, and those that have given it back without removing it left out. */
export async function findReplicas(
  client: KubeClient,
  namespace: string,
  signal: AbortSignal,
): Promise<Replica[]> {
  const { items } = await client.list<Lease>(resources.leases, {
    namespace,
    labelSelector: component,
    signal,
  });
  return items.flatMap(({ metadata, spec }) => {
    const url = metadata.annotations?.[annotationKeys.metricsAddress] ?? '';
    if ((spec?.holderIdentity ?? '') === '' || !isHttp(url)) return [];
    return [{ name: metadata.name ?? '', url }];
  });
}

/** Asks all of them at once. */
export function askReplicas<T>(
  replicas: readonly Replica[],
  query: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<Answer<T>[]> {
  return Promise.all(replicas.map((replica) => ask<T>(replica, query, signal)));
}

/** Throws `InvalidArgument` for what is no address. */
export function namedReplica(url: string): Replica {
  if (isHttp(url)) return { name: url, url };
  throw new CliError('InvalidArgument', `"${url}" is no address: give it as in http://127.0.0.1:10451`);
}

/** Why nobody knows, and what can be done about it. */
export function whyUnknown(answers: readonly Answer<unknown>[], tenant: string, namespace: string): string {
  const [vcNamespace, name] = tenant.split('/');
  if (answers.length === 0) {
    return (
      `no syncer has a Lease in namespace ${namespace}, so there is nobody to ask: ` +
      'is one running? "vc-manager logs --stack vc-syncer" shows what that of the local stack says'
    );
  }
  const knows = answers.find(({ is }) => is === 'UnknownPod');
  if (knows !== undefined) {
    return `the syncer ${knows.replica.name} does not remember this pod: it was there before that syncer took the tenant over, or many have come since`;
  }
  const [away] = answers.filter((answer) => answer.is === 'unreachable');
  if (away !== undefined) {
    return (
      `the syncer ${away.replica.name} cannot be asked at ${away.replica.url} (${away.why}): run this on its ` +
      'machine, or forward that port and add --syncer http://127.0.0.1:PORT'
    );
  }
  return `no syncer serves ${tenant} at the moment: "vc-manager describe ${name} -n ${vcNamespace}" says why`;
}

async function ask<T>(
  replica: Replica,
  query: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<Answer<T>> {
  const url = new URL('/debug/pods', replica.url);
  url.search = new URLSearchParams(query).toString();
  try {
    const response = await fetch(url, { signal: AbortSignal.any([signal, AbortSignal.timeout(patienceMs)]) });
    const body = (await response.json()) as { reason?: string; message?: string };
    if (response.ok) return { is: 'answer', replica, body: body as T };
    if (body.reason === 'UnknownTenant' || body.reason === 'UnknownPod') return { is: body.reason, replica };
    return { is: 'unreachable', replica, why: body.message ?? `HTTP ${response.status}` };
  } catch (error) {
    signal.throwIfAborted();
    return { is: 'unreachable', replica, why: reasonOf(error) };
  }
}

/** The reason of a failed fetch is a level below. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error instanceof SyntaxError) return 'its answer is not that of a syncer';
  if (error.name === 'TimeoutError') return `no answer within ${patienceMs / 1_000} s`;
  const { code, message } = (error.cause ?? error) as NodeJS.ErrnoException;
  return code ?? message;
}

function isHttp(url: string): boolean {
  return URL.canParse(url) && /^https?:$/.test(new URL(url).protocol);
}
