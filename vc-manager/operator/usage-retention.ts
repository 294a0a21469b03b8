import { hash } from 'node:crypto';
import { annotationKeys } from '../../api/labels.ts';
import {
  addedUids,
  addUsage,
  noUsage,
  roundedUsage,
  usageAddedAnnotation,
  usageConfigMapId,
  usageConfigMapName,
  usageDays,
  usageLabel,
} from '../../api/usage.ts';
import {
  type ConfigMap,
  deleteIfPresent,
  type KubeClient,
  type KubeObject,
  resources,
} from '../../kube/index.ts';

/** Older ConfigMaps are deleted. */
const keptMonths = 13;
/**
 * Of a namespace and month, so many tenants that are gone keep a ConfigMap of their own: an owner may make VirtualClusters and
 * delete them without end. What the earliest of more have used is added up in one.
 */
export const maxOfGone = 100;
const maxAtOnce = 500;

interface Retention {
  client: KubeClient;
  /** Of the ConfigMaps. */
  namespace: string;
  /** This one. */
  month: string;
  /** Whether the ConfigMaps of this id stay: they are of a tenant that is there, or are still to be written. */
  isThere: (id: string) => boolean;
  /** Called with the id of a tenant, perhaps one that is back, of which a ConfigMap was deleted that another one contains. */
  onDeleted: (id: string) => void;
}

/** Deletes what is too old, and adds up the ConfigMaps of tenants that are gone where there are too many. */
export async function boundUsage(retention: Retention, signal: AbortSignal): Promise<void> {
  const { client, namespace, month: current, isThere, onDeleted } = retention;
  const oldest = monthsBefore(current, keptMonths);
  const options = { namespace, labelSelector: usageLabel, metadataOnly: true, signal };
  const { items } = await client.list(resources.configMaps, options);
  const added = addedUids(items);
  const gone = new Map<string, KubeObject[]>();
  for (const item of items) {
    const { name = '', uid = '', labels, annotations } = item.metadata;
    const month = labels?.[usageLabel] ?? '';
    if (month < oldest || added.has(uid)) {
      await deleteIfPresent(client, resources.configMaps, { namespace, name }, { uid, signal });
      if (added.has(uid)) onDeleted(usageConfigMapId(name));
      continue;
    }
    const [of = ''] = (annotations?.[annotationKeys.tenantName] ?? '').split('/');
    const sum = usageConfigMapName(idOfGone(of), month);
    if (name === sum || isThere(usageConfigMapId(name))) continue;
    const records = gone.get(sum) ?? [];
    records.push(item);
    gone.set(sum, records);
  }
  for (const [sum, records] of gone)
    for (let left = records; left.length > maxOfGone; ) left = await addUp(retention, sum, left, signal);
}

/** In place of an id, for tenants of a namespace that are gone and have no ConfigMaps of their own any more. */
function idOfGone(namespace: string): string {
  return `gone-${hash('sha256', namespace, 'hex').slice(0, 16)}`;
}

/** Some of these records, the earliest, go into the ConfigMap of that name. Returns the others. */
async function addUp(
  { client, namespace }: Retention,
  sum: string,
  records: readonly KubeObject[],
  signal: AbortSignal,
): Promise<KubeObject[]> {
  const read = async (name: string): Promise<ConfigMap | undefined> => {
    const options = { namespace, fieldSelector: `metadata.name=${name}`, signal };
    return (await client.list<ConfigMap>(resources.configMaps, options)).items[0];
  };
  const present = await read(sum);
  const order = ({ metadata }: KubeObject): string => metadata.creationTimestamp ?? '';
  const inOrder = records.toSorted((a, b) => Number(order(a) > order(b)) - Number(order(a) < order(b)));
  const earliest = inOrder.splice(0, Math.min(records.length - maxOfGone, maxAtOnce));
  const days = new Map(usageDays(present?.data));
  for (const { metadata } of earliest)
    for (const [day, used] of usageDays((await read(metadata.name ?? ''))?.data))
      days.set(day, addUsage(days.get(day) ?? noUsage(), used));
  const { labels, annotations } = earliest[0]?.metadata ?? {};
  const [of = ''] = (annotations?.[annotationKeys.tenantName] ?? '').split('/');
  const uids = earliest.map(({ metadata }) => metadata.uid);
  const change = {
    metadata: {
      labels: { ...labels },
      annotations: { [annotationKeys.tenantName]: `${of}/*`, [usageAddedAnnotation]: uids.join() },
    },
    data: Object.fromEntries(Array.from(days, ([day, used]) => [day, JSON.stringify(roundedUsage(used))])),
  };
  const ref = { namespace, name: sum };
  if (present === undefined) {
    const made: ConfigMap = { ...change, metadata: { ...change.metadata, ...ref } };
    await client.create(resources.configMaps, made, { signal });
  } else {
    const { resourceVersion } = present.metadata;
    const patch = { ...change, metadata: { ...change.metadata, resourceVersion } };
    await client.patch(resources.configMaps, ref, patch, { type: 'merge', signal });
  }
  for (const { metadata } of earliest) {
    const { name = '', uid = '' } = metadata;
    await deleteIfPresent(client, resources.configMaps, { namespace, name }, { uid, signal });
  }
  return inOrder;
}

function monthsBefore(month: string, count: number): string {
  const [year = 0, number = 1] = month.split('-').map(Number);
  return new Date(Date.UTC(year, number - 1 - count, 1)).toISOString().slice(0, 7);
}
