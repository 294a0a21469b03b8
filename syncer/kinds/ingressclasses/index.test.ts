import { expect, it } from 'vitest';
import { annotationKeys, labelKeys } from '../../../api/labels.ts';
import type { KubeObject } from '../../../kube/index.ts';
import { testContext } from '../testing.ts';
import { ingressClassKind as kind } from './index.ts';

const isDefault = { 'ingressclass.kubernetes.io/is-default-class': 'true' };

const original: KubeObject = {
  apiVersion: 'networking.k8s.io/v1',
  kind: 'IngressClass',
  metadata: {
    name: 'public',
    uid: 'uid-super',
    labels: { [labelKeys.public]: 'true' },
    annotations: isDefault,
  },
  spec: {
    controller: 'example.com/ingress',
    parameters: { kind: 'Settings', name: 's', namespace: 'infra', scope: 'Namespace' },
  },
};

it('a published IngressClass comes up, the mark of a default included, without parameters of the super cluster', () => {
  const copy = kind.toTenant(original, testContext());
  expect(copy).toEqual({
    apiVersion: 'networking.k8s.io/v1',
    kind: 'IngressClass',
    metadata: { name: 'public', annotations: { ...isDefault, [annotationKeys.uid]: 'uid-super' } },
    spec: { controller: 'example.com/ingress' },
  });
  expect(kind.up(copy, original, testContext())).toEqual([]);
});

it('parameters that a tenant adds are taken off again, and another controller makes it anew', () => {
  const copy = kind.toTenant(original, testContext());
  const edited = {
    ...copy,
    spec: { controller: 'example.com/ingress', parameters: { kind: 'X', name: 'x' } },
  };
  expect(kind.up(edited, original, testContext())).toEqual([
    { do: 'patchTenant', patch: { spec: { parameters: null } } },
  ]);
  const other = { ...original, spec: { controller: 'example.com/other' } };
  expect(kind.up(copy, other, testContext())).toEqual([{ do: 'deleteTenant' }]);
});
