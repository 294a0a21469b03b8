import { createHash } from 'node:crypto';
import type { KubeObject } from '../../../../kube/index.ts';
import type { ComponentPlan } from '../../../control-plane/index.ts';
import { filesSecretOf, labelsOf, namespaceOf } from '../names.ts';

export const filesDirectory = '/etc/skerry';
export const dataDirectory = '/var/lib/skerry';

/** With the placeholders of a plan filled in. */
export function filled(text: string): string {
  return text.replaceAll('${files}', filesDirectory).replaceAll('${data}', dataDirectory);
}

/** A component's files: keys among them, so a Secret. */
export function filesSecret(id: string, { name, files }: ComponentPlan): KubeObject {
  return {
    metadata: { name: filesSecretOf(name), namespace: namespaceOf(id), labels: labelsOf(id, name) },
    type: 'Opaque',
    data: Object.fromEntries(
      files.map(({ path, content }) => [keyOf(path), Buffer.from(filled(content)).toString('base64')]),
    ),
  };
}

/** The volume that shows them under their own paths. Its group may read them: nobody in the pod is root. */
export function filesVolume({ name, files }: ComponentPlan): Record<string, unknown> {
  return {
    name: 'files',
    secret: {
      secretName: filesSecretOf(name),
      defaultMode: 0o440,
      items: files.map(({ path }) => ({ key: keyOf(path), path })),
    },
  };
}

export function hashOfFiles({ files }: ComponentPlan): string {
  const content = files.map(({ path, content: text, mode }) => [path, text, mode]).sort();
  return createHash('sha256').update(JSON.stringify(content)).digest('hex').slice(0, 16);
}

/** A key has no slashes; two paths never become one key. */
function keyOf(path: string): string {
  return path.replaceAll('_', '__').replaceAll('/', '_.');
}
