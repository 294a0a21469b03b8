import { type Clock, isAlreadyExists, type KubeObject, resources } from '../../../kube/index.ts';
import { namespaceWillNotGo, notOurs } from '../errors.ts';
import { fieldManager, idLabel, namespaceOf } from './names.ts';
import type { SuperObjects } from './super-objects.ts';

const removalTimeoutMs = 180_000;
const lookEveryMs = 250;

/** The namespace of a control plane; undefined when there is none, or one that bears no label of ours. */
export async function ownNamespace(
  objects: SuperObjects,
  id: string,
  signal: AbortSignal,
): Promise<KubeObject | undefined> {
  const found = await objects.find(resources.namespaces, { name: namespaceOf(id) }, signal);
  return found?.metadata.labels?.[idLabel] === id ? found : undefined;
}

/** Makes it, or puts its labels right. Throws `NotOurs` for one that somebody else has made. */
export async function ensureNamespace(
  objects: SuperObjects,
  wanted: KubeObject,
  signal: AbortSignal,
): Promise<void> {
  const { client } = objects;
  const id = wanted.metadata.labels?.[idLabel] ?? '';
  const name = namespaceOf(id);
  let current = await objects.find(resources.namespaces, { name }, signal);
  if (current === undefined) {
    try {
      current = await client.create(resources.namespaces, wanted, { signal, fieldManager });
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
      current = await client.get(resources.namespaces, { name }, { signal });
    }
  }
  const { labels = {}, annotations = {}, deletionTimestamp, uid } = current.metadata;
  if (labels[idLabel] !== id) throw notOurs(id, name);
  if (deletionTimestamp !== undefined) {
    throw namespaceWillNotGo(id, name, ' and is being deleted; it is made anew when it is gone');
  }
  const { labels: wantedLabels, annotations: wantedAnnotations } = wanted.metadata;
  if (includes(labels, wantedLabels) && includes(annotations, wantedAnnotations)) return;
  const patch = { metadata: { uid, labels: wantedLabels, annotations: wantedAnnotations } };
  await client.patch(resources.namespaces, { name }, patch, { type: 'merge', fieldManager, signal });
}

/** Deletes this very namespace and waits until it is gone, with everything in it. */
export async function deleteNamespace(
  objects: SuperObjects,
  { metadata }: KubeObject,
  { id, clock, signal }: { id: string; clock: Clock; signal: AbortSignal },
): Promise<void> {
  const { name = '', uid } = metadata;
  await objects.delete(resources.namespaces, { name }, { signal, uid });
  const deadline = clock.monotonic() + removalTimeoutMs;
  for (;;) {
    const left = await objects.find(resources.namespaces, { name }, signal);
    if (left === undefined || left.metadata.uid !== uid) return;
    if (clock.monotonic() > deadline) throw namespaceWillNotGo(id, name, whyIsItThere(left));
    await clock.sleep(lookEveryMs, signal);
  }
}

function includes(all: Record<string, string>, some: Record<string, string> = {}): boolean {
  return Object.entries(some).every(([key, value]) => all[key] === value);
}

/** What the server says about a namespace that does not go. */
function whyIsItThere(namespace: KubeObject): string {
  const status = namespace['status'] as { conditions?: { status: string; message?: string }[] } | undefined;
  const stuck = status?.conditions?.find((condition) => condition.status === 'True');
  return stuck?.message === undefined ? '' : `: ${stuck.message}`;
}
