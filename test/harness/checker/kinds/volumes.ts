import type { KubeObject } from '../../../../kube/index.ts';
import { compareDown, type DownRules, type Expectation } from '../down.ts';
import { annotation, at, label, unequal } from '../raw.ts';
import type { View } from '../view.ts';

const claimRules: DownRules = {
  kind: 'persistentvolumeclaims',
  what: 'PersistentVolumeClaim',
  expected: expectedClaim,
  compare(own, superObject) {
    const found = [
      ...unequal(
        at(own, 'spec', 'resources', 'requests', 'storage'),
        at(superObject, 'spec', 'resources', 'requests', 'storage'),
        'requested storage',
      ),
    ];
    for (const field of ['accessModes', 'storageClassName', 'volumeMode', 'volumeName']) {
      found.push(...unequal(at(own, 'spec', field), at(superObject, 'spec', field), field));
    }
    for (const field of ['phase', 'capacity']) {
      found.push(...unequal(at(own, 'status', field), at(superObject, 'status', field), field));
    }
    return found;
  },
};

/** Claims go down, their volumes come up, bound to each other on either side. */
export function compareVolumes(view: View): string[] {
  return [...compareDown(claimRules, view), ...compareUp(view)];
}

function expectedClaim(own: KubeObject, view: View): Expectation {
  const name = at<string>(own, 'spec', 'storageClassName');
  if (at(own, 'spec', 'dataSource') !== undefined || at(own, 'spec', 'dataSourceRef') !== undefined)
    return 'may';
  if (name === undefined || name === '') return 'may';
  const published = view.superSide.storageclasses.some(
    (each) => each.metadata.name === name && label(each, 'skerry.dev/public') === 'true',
  );
  const copy = view.own.storageclasses.find((each) => each.metadata.name === name);
  if (!published || (copy !== undefined && annotation(copy, 'skerry.dev/uid') === undefined)) return 'no';
  const volume = at<string>(own, 'spec', 'volumeName');
  if (volume === undefined) return 'yes';
  const bound = view.ownObject('persistentvolumes', undefined, volume);
  return bound !== undefined && annotation(bound, 'skerry.dev/uid') !== undefined ? 'yes' : 'may';
}

function compareUp(view: View): string[] {
  const found: string[] = [];
  const wanted = new Set<string>();
  for (const claim of view.own.persistentvolumeclaims) {
    const { namespace = '', name = '', uid, deletionTimestamp } = claim.metadata;
    const superClaim = view.superObject('persistentvolumeclaims', namespace, name);
    const volumeName = at<string>(superClaim, 'spec', 'volumeName');
    if (superClaim === undefined || volumeName === undefined) continue;
    wanted.add(volumeName);
    const superVolume = view.superSide.persistentvolumes.find(({ metadata }) => metadata.name === volumeName);
    const own = view.ownObject('persistentvolumes', undefined, volumeName);
    if (superVolume === undefined || deletionTimestamp !== undefined) continue;
    const differences =
      own === undefined
        ? ['is not in the tenant']
        : [
            ...unequal(annotation(own, 'skerry.dev/uid'), superVolume.metadata.uid, 'UID mark'),
            ...unequal(
              { namespace, name, uid },
              pick(at(own, 'spec', 'claimRef'), ['namespace', 'name', 'uid']),
              'claim',
            ),
            ...[
              'capacity',
              'accessModes',
              'storageClassName',
              'volumeMode',
              'persistentVolumeReclaimPolicy',
            ].flatMap((field) => unequal(at(own, 'spec', field), at(superVolume, 'spec', field), field)),
            ...unequal(at(own, 'status', 'phase'), at(superVolume, 'status', 'phase'), 'phase'),
          ];
    found.push(...differences.map((text) => `PersistentVolume ${volumeName}: ${text}`));
  }
  for (const own of view.own.persistentvolumes) {
    if (annotation(own, 'skerry.dev/uid') === undefined || wanted.has(own.metadata.name ?? '')) continue;
    found.push(`PersistentVolume ${own.metadata.name}: is in the tenant without a bound claim`);
  }
  return found;
}

function pick(
  value: Record<string, unknown> | undefined,
  fields: readonly string[],
): Record<string, unknown> {
  return Object.fromEntries(fields.map((field) => [field, value?.[field]]));
}
