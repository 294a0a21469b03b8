import { type KubeObject, type MergePatch, mergePatch, type ObjectMeta } from '../../kube/index.ts';

/** Makes labels and annotations of a copy exactly those of `wanted`: what the tenant added goes too. */
export function exactMetadataPatch(copy: KubeObject, wanted: ObjectMeta): MergePatch | undefined {
  const { labels = {}, annotations = {} } = copy.metadata;
  const metadata = mergePatch(
    { labels, annotations },
    { labels: wanted.labels ?? {}, annotations: wanted.annotations ?? {} },
  );
  return metadata === undefined ? undefined : { metadata };
}
