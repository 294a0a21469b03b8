import { stringify } from 'yaml';
import type { KubeObject } from '../../../kube/index.ts';

export const outputFormats = ['table', 'wide', 'json', 'yaml', 'name'] as const;
export type OutputFormat = (typeof outputFormats)[number];

export function json(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}

export function yaml(value: unknown): string {
  return stringify(value, { lineWidth: 0 });
}

/** `virtualcluster.skerry.dev/NAME`, which kubectl takes too. */
export function resourceName(name: string): string {
  return `virtualcluster.skerry.dev/${name}`;
}

/** A Kubernetes List, as `kubectl get -o json` prints it. */
export function listOf(items: readonly KubeObject[]): KubeObject & { items: KubeObject[] } {
  return { apiVersion: 'v1', kind: 'List', metadata: { resourceVersion: '' }, items: items.map(withKind) };
}

/** As kubectl shows an object: says what it is, and without who has last written which field. */
export function withKind(object: KubeObject): KubeObject {
  const { managedFields: _, ...metadata } = object.metadata;
  return { apiVersion: 'skerry.dev/v1alpha1', kind: 'VirtualCluster', ...object, metadata };
}
