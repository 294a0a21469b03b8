import { createHash } from 'node:crypto';
import type { ControlPlaneTemplate } from '../../../api/control-plane-template.ts';
import { labelKeys } from '../../../api/labels.ts';
import { type KubeClient, type KubeObject, resources } from '../../../kube/index.ts';
import { ensureObject, find } from '../objects.ts';

/** Annotation: what the manager wrote, so that an edit can be told from an older package. */
const writtenKey = 'skerry.dev/template-hash';

/** Puts the packaged templates into the super cluster. One that an operator has edited is left alone. */
export async function ensureTemplates(
  client: KubeClient,
  templates: readonly ControlPlaneTemplate[],
  signal: AbortSignal,
): Promise<void> {
  for (const { metadata, spec } of templates) {
    const existing = await find(client, resources.controlPlaneTemplates, { name: metadata.name }, signal);
    if (existing !== undefined && existing.metadata.annotations?.[writtenKey] !== hashOf(existing['spec']))
      continue;
    const object: KubeObject = {
      metadata: {
        name: metadata.name,
        labels: { [labelKeys.managedBy]: 'skerry' },
        annotations: { [writtenKey]: hashOf(spec) },
      },
      spec,
    };
    if (existing !== undefined) {
      if (existing.metadata.annotations?.[writtenKey] === hashOf(spec)) continue;
      // Whole: a merge would keep flags that the new one has dropped.
      const { resourceVersion } = existing.metadata;
      const replacement = {
        ...object,
        metadata: { ...object.metadata, ...(resourceVersion && { resourceVersion }) },
      };
      await client.update(resources.controlPlaneTemplates, replacement, { signal });
    } else {
      await ensureObject(client, resources.controlPlaneTemplates, object, { signal });
    }
  }
}

function hashOf(spec: unknown): string {
  return createHash('sha256')
    .update(JSON.stringify(ordered(spec)))
    .digest('hex')
    .slice(0, 16);
}

/** The same for equal values, in whatever order a server keeps their fields. */
function ordered(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(ordered);
  if (typeof value !== 'object' || value === null) return value;
  return Object.entries(value)
    .filter(([, each]) => each !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, each]) => [key, ordered(each)]);
}
