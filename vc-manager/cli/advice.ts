import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { readyCondition } from './virtual-clusters.ts';

const slowAfterMs = 3 * 60_000;

/** What somebody who looks at a tenant can do next; at least one line. */
export function advice(vc: VirtualCluster, nowMs = Date.now()): string[] {
  const { name = '', namespace = '' } = vc.metadata;
  const where = namespace === 'default' ? '' : ` -n ${namespace}`;
  const held = attention(vc);
  if (vc.metadata.deletionTimestamp !== undefined) return [...held, ...deletionAdvice(vc, nowMs, where)];
  const phase = vc.status?.phase;
  if (phase === 'Ready') {
    const use = `Use it: vc-manager kubeconfig ${name}${where} > ${name}.kubeconfig`;
    return [...(held.length === 0 ? [use] : held), ...limits(vc)];
  }
  if (phase === 'Failed') {
    return [
      ...held,
      readyCondition(vc)?.message ?? 'It has failed, and does not say why.',
      'The manager tries again by itself when the VirtualCluster changes.',
      `What its components say: vc-manager logs ${name}${where}`,
    ];
  }
  if (phase === 'Cancelled') {
    return [
      ...held,
      `Begin it anew: vc-manager jobs retry ${name}${where}`,
      `Or be done with it: vc-manager delete ${name}${where}`,
    ];
  }
  if (phase === undefined || phase === 'Pending') {
    // A manager has looked at it, and says what it waits for.
    const message = phase === undefined ? undefined : readyCondition(vc)?.message;
    if (message !== undefined) return [...held, message];
    if (!isOld(vc.metadata.creationTimestamp, nowMs))
      return [...held, 'Wait: it is about to be provisioned.'];
    return [
      ...held,
      'No manager works on it. Is one running? "vc-manager up" or "vc-manager operator" starts one; ' +
        '"vc-manager logs --stack vc-manager" shows what it says.',
    ];
  }
  if (isOld(vc.metadata.creationTimestamp, nowMs)) {
    return [...held, `It takes unusually long. See what its components say: vc-manager logs ${name}${where}`];
  }
  return [...held, `Wait: vc-manager describe ${name}${where} shows how far it is.`];
}

/** Conditions of the syncer in which it waits for a decision; their messages name the command. */
function attention(vc: VirtualCluster): string[] {
  const conditions = vc.status?.conditions ?? [];
  const waiting = conditions.filter(
    ({ type, status }) => (type === 'DeletionHeld' || type === 'IdentityMismatch') && status === 'True',
  );
  const lines = waiting.map(({ type, message }) => message ?? type);
  const synced = conditions.find(({ type }) => type === 'Synced');
  if (vc.status?.phase === 'Ready' && vc.metadata.deletionTimestamp === undefined) {
    if (synced?.status === 'False' && synced.reason !== 'Joining')
      lines.push(`It is not synced: ${synced.message ?? synced.reason ?? 'no reason given'}`);
    if (synced === undefined) {
      lines.push(
        'No syncer has joined it yet. Is one running? "vc-manager logs --stack vc-syncer" shows what it says.',
      );
    }
  }
  return lines;
}

/** What works otherwise than its owner may think, though nothing is broken. */
export function limits({ status }: VirtualCluster): string[] {
  return (status?.conditions ?? [])
    .filter(
      ({ type, status: is, reason }) =>
        (type === 'PolicyLimited' && is === 'True') ||
        (type === 'VersionCurrent' && is === 'False') ||
        (type === 'DNSReady' && is === 'False' && reason !== 'Starting'),
    )
    .map(({ type, message }) => message ?? type);
}

function deletionAdvice(vc: VirtualCluster, nowMs: number, where: string): string[] {
  if (!isOld(vc.metadata.deletionTimestamp, nowMs)) return ['Wait: it is being removed.'];
  const message = readyCondition(vc)?.message;
  return [
    `Its removal takes unusually long${message === undefined ? '' : `: ${message}`}`,
    `A manager has to run for it to end; "vc-manager logs --stack vc-manager" shows what it says. Never remove the finalizer by hand: vc-manager describe ${vc.metadata.name}${where} names what is left.`,
  ];
}

function isOld(timestamp: string | undefined, nowMs: number): boolean {
  return nowMs - Date.parse(timestamp ?? '') > slowAfterMs;
}
