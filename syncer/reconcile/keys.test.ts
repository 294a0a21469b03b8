import { describe, expect, it } from 'vitest';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import type { KubeObject } from '../../kube/index.ts';
import type { DownKind, UpKind } from '../kinds/contract.ts';
import { allKinds } from '../kinds/registry.ts';
import { testContext } from '../kinds/testing.ts';
import { downKeyOf, tenantKeyOf, upKeyOf } from './keys.ts';

function kind<K>(name: string): K {
  return allKinds.find((each) => each.name === name) as K;
}

function marked(name: string, namespace?: string): KubeObject {
  return {
    metadata: {
      name,
      labels: { [labelKeys.namespace]: 'shop' },
      annotations: { [annotationKeys.uid]: 't1' },
      ...(namespace && { namespace }),
    },
  };
}

describe('the key of an object', () => {
  it('of the tenant is its name', () => {
    expect(tenantKeyOf(kind('pods'), { metadata: { name: 'web', namespace: 'shop' } })).toEqual({
      kind: 'pods',
      namespace: 'shop',
      name: 'web',
    });
    expect(tenantKeyOf(kind('nodes'), { metadata: { name: 'n1' } })).toEqual({ kind: 'nodes', name: 'n1' });
  });

  it('of the super cluster is read from its marks', () => {
    expect(downKeyOf(kind<DownKind>('pods'), marked('web', 'acme-blue-shop-x'))).toEqual({
      kind: 'pods',
      namespace: 'shop',
      name: 'web',
    });
    expect(downKeyOf(kind<DownKind>('namespaces'), marked('acme-blue-shop-x'))).toEqual({
      kind: 'namespaces',
      name: 'shop',
    });
    expect(
      downKeyOf(kind<DownKind>('configmaps'), marked('tenant-kube-root-ca.crt', 'acme-blue-shop-x')),
    ).toEqual({
      kind: 'configmaps',
      namespace: 'shop',
      name: 'kube-root-ca.crt',
    });
  });

  it('is none without the mark of an original', () => {
    const { metadata } = marked('web', 'acme-blue-shop-x');
    expect(downKeyOf(kind<DownKind>('pods'), { metadata: { ...metadata, annotations: {} } })).toBeUndefined();
    expect(downKeyOf(kind<DownKind>('pods'), { metadata: { ...metadata, labels: {} } })).toBeUndefined();
  });

  it('of an original is where its copy belongs, or, without a place, where an old copy may be', () => {
    const classes = kind<UpKind>('storageclasses');
    const published = { metadata: { name: 'fast', labels: { [labelKeys.public]: 'true' } } };
    expect(upKeyOf(classes, published, testContext())).toEqual({ kind: 'storageclasses', name: 'fast' });
    expect(upKeyOf(classes, { metadata: { name: 'slow' } }, testContext())).toEqual({
      kind: 'storageclasses',
      name: 'slow',
    });
  });
});
