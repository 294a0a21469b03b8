import { expect, it } from 'vitest';
import { defaultPolicy } from '../../api/default-policy.ts';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import { type KubeObject, resources } from '../../kube/index.ts';
import { runtimeClassKind } from './classes.ts';
import { isBeingPublished, isOffered, isPublished } from './published-kind.ts';
import { testContext } from './testing.ts';

const published: KubeObject = {
  kind: 'RuntimeClass',
  metadata: { name: 'kata', uid: 'uid-super', labels: { [labelKeys.public]: 'true' } },
};
const unpublished: KubeObject = { kind: 'RuntimeClass', metadata: { name: 'kata', uid: 'uid-super' } };
const copy: KubeObject = {
  kind: 'RuntimeClass',
  metadata: { name: 'kata', annotations: { [annotationKeys.uid]: 'uid-super' } },
};
const own: KubeObject = { kind: 'RuntimeClass', metadata: { name: 'kata' } };

const asked = (tenantObjects: KubeObject[], superObjects: KubeObject[]) => {
  const context = testContext({ tenantObjects, superObjects });
  return {
    offered: isOffered(resources.runtimeClasses, 'kata', context),
    onItsWay: isBeingPublished(resources.runtimeClasses, 'kata', context),
  };
};

it('only the label skerry.dev/public=true publishes (sync rule `published-kinds`)', () => {
  expect(isPublished(published)).toBe(true);
  expect(isPublished(unpublished)).toBe(false);
  expect(isPublished(undefined)).toBe(false);
});

it('a name means a published object only if the tenant has its copy: marks can be written by anybody', () => {
  expect(asked([copy], [published])).toEqual({ offered: true, onItsWay: false });
  expect(asked([copy], [unpublished])).toEqual({ offered: false, onItsWay: false });
  expect(asked([own], [published])).toEqual({ offered: false, onItsWay: false });
  expect(asked([], [published])).toEqual({ offered: false, onItsWay: true });
  expect(asked([copy], [])).toEqual({ offered: false, onItsWay: false });
});

it('a policy with a list offers a tenant what is published and in the list', () => {
  const context = (runtimeClasses: string[]) =>
    testContext({
      tenant: { policy: { ...defaultPolicy, runtimeClasses } },
      tenantObjects: [copy],
      superObjects: [published],
    });
  for (const [list, expected] of [
    [['gvisor', 'kata'], true],
    [['gvisor'], false],
    [[], false],
  ] as const) {
    const over = context([...list]);
    expect(isOffered(resources.runtimeClasses, 'kata', over)).toBe(expected);
    expect(runtimeClassKind.tenantRef(published, over)).toEqual(expected ? { name: 'kata' } : undefined);
    expect(runtimeClassKind.tenantRef(unpublished, over)).toBeUndefined();
  }
});
