import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import { table } from './table.ts';
import { ageSince } from './time.ts';

/** What `list` prints; empty when there is none. */
export function virtualClusterTable(
  items: readonly VirtualCluster[],
  { isWide, nowMs }: { isWide: boolean; nowMs: number },
): string {
  if (items.length === 0) return '';
  const header = ['NAMESPACE', 'NAME', 'PHASE', 'VERSION', 'PODS', 'AGE'];
  if (isWide) header.push('ENDPOINT', 'ID', 'SERVICES', 'WEIGHT', 'MESSAGE');
  const sorted = items.toSorted((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
  return table(
    header,
    sorted.map((vc) => row(vc, isWide, nowMs)),
  );
}

function row({ metadata, spec, status }: VirtualCluster, isWide: boolean, nowMs: number): string[] {
  const cells = [
    metadata.namespace ?? '',
    metadata.name ?? '',
    metadata.deletionTimestamp === undefined ? (status?.phase ?? 'Pending') : 'Deleting',
    status?.version ?? spec?.version ?? '-',
    String(status?.usage?.pods ?? '-'),
    ageSince(metadata.creationTimestamp, nowMs),
  ];
  if (!isWide) return cells;
  const message = status?.conditions?.find(({ type }) => type === 'Ready')?.message;
  return [
    ...cells,
    status?.endpoint ?? '-',
    status?.id ?? '-',
    status?.serviceCIDR ?? '-',
    String(spec?.weight ?? 1),
    message ?? '-',
  ];
}

function nameOf({ metadata }: VirtualCluster): string {
  return `${metadata.namespace}/${metadata.name}`;
}
