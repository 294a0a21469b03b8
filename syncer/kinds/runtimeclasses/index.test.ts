import { expect, it } from 'vitest';
import { annotationKeys, labelKeys } from '../../../api/labels.ts';
import type { KubeObject } from '../../../kube/index.ts';
import { testContext } from '../testing.ts';
import { runtimeClassKind as kind } from './index.ts';

const original: KubeObject = {
  apiVersion: 'node.k8s.io/v1',
  kind: 'RuntimeClass',
  metadata: { name: 'kata', uid: 'uid-super', labels: { [labelKeys.public]: 'true' } },
  handler: 'kata-qemu',
  overhead: { podFixed: { memory: '120Mi' } },
  scheduling: { nodeSelector: { 'kata.example/ready': 'true' } },
};

it('a published RuntimeClass comes up without what it says of the nodes of the super cluster', () => {
  const copy = kind.toTenant(original, testContext());
  expect(copy).toEqual({
    apiVersion: 'node.k8s.io/v1',
    kind: 'RuntimeClass',
    metadata: { name: 'kata', annotations: { [annotationKeys.uid]: 'uid-super' } },
    handler: 'kata-qemu',
    overhead: { podFixed: { memory: '120Mi' } },
  });
  expect(kind.up(copy, original, testContext())).toEqual([]);
});

it('what a tenant adds to it is taken off again, and another handler makes it anew', () => {
  const copy = kind.toTenant(original, testContext());
  const edited = { ...copy, scheduling: { nodeSelector: { mine: 'true' } } };
  expect(kind.up(edited, original, testContext())).toEqual([
    { do: 'patchTenant', patch: { scheduling: null } },
  ]);
  expect(kind.up(copy, { ...original, handler: 'kata-clh' }, testContext())).toEqual([
    { do: 'deleteTenant' },
  ]);
});
