import { hash } from 'node:crypto';
import type { SyncContext } from '../../context.ts';
import { annotationGoesDown, isTransparent, podLabelGoesDown } from '../../mapping/metadata.ts';
import { allContainers, type DownwardItem, type Pod, type PodSpec } from './types.ts';

/**
 * Where a super pod keeps a label or an annotation that does not go down and that the pod itself reads by the downward
 * API. Under a key of Skerry's own it means nothing to the super cluster.
 */
const prefixes = { labels: 'skerry.dev/pod-label-', annotations: 'skerry.dev/pod-annotation-' } as const;

type Field = keyof typeof prefixes;

/** `metadata.labels['app']` */
const oneKey = /^metadata\.(labels|annotations)\['([^']+)'\]$/;

/** The same value by the name that it has in the super pod. */
export function superFieldPath(fieldPath: string, { tenant }: SyncContext): string {
  const [, field, key] = oneKey.exec(fieldPath) ?? [];
  if (field === undefined || key === undefined) return fieldPath;
  return staysBehind(field as Field, key, tenant)
    ? `metadata.annotations['${mirrorKey(field as Field, key)}']`
    : fieldPath;
}

/** What of the pod's own labels and annotations stays behind but is read by it; undefined: nothing. */
export function mirroredKeys(pod: Pod, { tenant }: SyncContext): Record<string, string> | undefined {
  const { labels, annotations } = pod.metadata;
  const isBehind = (field: Field, keys: object | undefined): boolean =>
    Object.keys(keys ?? {}).some((key) => staysBehind(field, key, tenant));
  // Of most pods all goes down, and this is asked at every echo.
  if (!isBehind('labels', labels) && !isBehind('annotations', annotations)) return undefined;
  const mirrored: Record<string, string> = {};
  for (const fieldPath of fieldPaths(pod.spec ?? {})) {
    const [, field, key] = oneKey.exec(fieldPath) ?? [];
    if (field === undefined || key === undefined || !staysBehind(field as Field, key, tenant)) continue;
    const keys = pod.metadata[field as Field];
    const value = keys !== undefined && Object.hasOwn(keys, key) ? keys[key] : undefined;
    if (value !== undefined) mirrored[mirrorKey(field as Field, key)] = value;
  }
  return Object.keys(mirrored).length === 0 ? undefined : mirrored;
}

function staysBehind(field: Field, key: string, tenant: SyncContext['tenant']): boolean {
  // The marks of a super pod are for it to read, as before.
  if (key.startsWith('skerry.dev/') || isTransparent(key, tenant)) return false;
  return field === 'labels' ? !podLabelGoesDown(key, tenant) : !annotationGoesDown(key, tenant);
}

function mirrorKey(field: Field, key: string): string {
  return prefixes[field] + hash('sha256', key, 'hex').slice(0, 20);
}

/** All that a pod reads of itself by the downward API. */
export function fieldPaths(spec: PodSpec): string[] {
  const inVariables = allContainers(spec).flatMap(({ env }) =>
    (env ?? []).map(({ valueFrom }) => valueFrom?.fieldRef?.fieldPath),
  );
  const inFiles = (spec.volumes ?? []).flatMap(({ downwardAPI, projected }) =>
    [downwardAPI, ...(projected?.sources ?? []).map((source) => source.downwardAPI)].flatMap((source) =>
      (source?.items ?? []).map(({ fieldRef }: DownwardItem) => fieldRef?.fieldPath),
    ),
  );
  return [...inVariables, ...inFiles].filter((path) => path !== undefined);
}
