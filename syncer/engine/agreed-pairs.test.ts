import { expect, it } from 'vitest';
import { annotationKeys } from '../../api/labels.ts';
import { type KubeObject, resources } from '../../kube/index.ts';
import { allKinds } from '../kinds/index.ts';
import { Bench } from './testing/bench.ts';
import { patrolOf, settings } from './testing/patrol-of.ts';

it('a patrol compares two objects once, until one of them or a setting changes', async () => {
  await using bench = await Bench.start();
  bench.namespace('shop');
  const looked: string[] = [];
  const kinds = allKinds.map((kind) =>
    kind.direction === 'up'
      ? kind
      : {
          ...kind,
          down: (...sides: Parameters<typeof kind.down>) => {
            looked.push(`${kind.name}/${sides[0].metadata.name}`);
            return kind.down(...sides);
          },
        },
  );
  const running = { phase: 'Running', containerStatuses: [{ name: 'main', ready: true }] };
  const pod = (name: string, nodeName?: string): KubeObject => ({
    metadata: { name, namespace: 'shop' },
    spec: { nodeName, containers: [{ name: 'main', image: 'a' }] },
    status: running,
  });
  const inSuper = (own: KubeObject, image = 'a'): KubeObject => ({
    ...bench.superOf(own, { spec: { nodeName: 'n1', containers: [{ name: 'main', image }] } }),
    status: running,
  });
  const marked = (own: KubeObject, s: KubeObject): KubeObject => ({
    ...own,
    metadata: { ...own.metadata, annotations: { [annotationKeys.superUid]: s.metadata.uid ?? '' } },
  });
  const t = bench.have('tenant', resources.pods, pod('run', 'n1'));
  const s = bench.have('super', resources.pods, inSuper(t));
  bench.have('tenant', resources.pods, marked(t, s));
  const same = bench.have('tenant', resources.configMaps, settings('same'));
  bench.have('super', resources.configMaps, bench.superOf(same));
  const { patrol, queued } = patrolOf(bench, { kinds });
  const round = async (): Promise<string[]> => {
    looked.length = 0;
    await patrol.round(bench.state);
    return looked.filter((id) => id.startsWith('pods/') || id.startsWith('configmaps/'));
  };

  expect((await round()).toSorted()).toEqual(['configmaps/same', 'pods/run']);
  expect(queued).toEqual([]);
  // Only kinds that say so: others may depend on more.
  expect(await round()).toEqual(['configmaps/same']);
  bench.state.updateInfo({ ...bench.state.info });
  expect(await round()).toContain('pods/run');
  expect(await round()).toEqual(['configmaps/same']);

  const own = marked(t, s);
  bench.have('tenant', resources.pods, { ...own, metadata: { ...own.metadata, labels: { a: 'new' } } });
  expect(await round()).toContain('pods/run');
  bench.have('tenant', resources.pods, own);
  expect(await round()).toContain('pods/run');
  expect(queued).toEqual(['pods/shop/run']);
  bench.have('super', resources.pods, { ...inSuper(t, 'drift'), metadata: s.metadata });
  await round();
  expect(queued).toHaveLength(2);
  // What differs is not forgotten.
  await round();
  expect(queued).toHaveLength(3);
});
