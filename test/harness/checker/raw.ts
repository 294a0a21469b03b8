import { isDeepStrictEqual } from 'node:util';
import type { KubeObject } from '../../../kube/index.ts';

/** A field somewhere in an object, by path; undefined where there is none. */
export function at<T = unknown>(object: unknown, ...path: string[]): T | undefined {
  let value: unknown = object;
  for (const step of path) {
    if (typeof value !== 'object' || value === null) return undefined;
    value = (value as Record<string, unknown>)[step];
  }
  return value as T | undefined;
}

export function listAt<T = Record<string, unknown>>(object: unknown, ...path: string[]): readonly T[] {
  return at<T[]>(object, ...path) ?? [];
}

export function label(object: KubeObject, key: string): string | undefined {
  return object.metadata.labels?.[key];
}

export function annotation(object: KubeObject, key: string): string | undefined {
  return object.metadata.annotations?.[key];
}

export function nameOf(object: KubeObject): string {
  const { namespace, name } = object.metadata;
  return namespace === undefined ? `${name}` : `${namespace}/${name}`;
}

export function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null || value === '' || value === false) return true;
  if (Array.isArray(value)) return value.length === 0;
  return typeof value === 'object' && Object.keys(value).length === 0;
}

/** Equal, where an absent field is as good as an empty one. */
export function agree(one: unknown, other: unknown): boolean {
  return (isEmpty(one) && isEmpty(other)) || isDeepStrictEqual(one, other);
}

/** One sentence for each of the fields that differ. */
export function unequal(tenantValue: unknown, superValue: unknown, what: string): string[] {
  if (agree(tenantValue, superValue)) return [];
  return [`${what}: ${show(tenantValue)} in the tenant, ${show(superValue)} in the super cluster`];
}

function show(value: unknown): string {
  const text = JSON.stringify(value) ?? 'nothing';
  return text.length > 200 ? `${text.slice(0, 200)}…` : text;
}

/** `default/kubernetes`, the Service of a tenant's own API server, and the slice of that. */
export function isApiServers({ metadata }: KubeObject): boolean {
  return metadata.namespace === 'default' && metadata.name === 'kubernetes';
}
