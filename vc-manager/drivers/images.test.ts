import { describe, expect, it } from 'vitest';
import { imageOf } from './images.ts';

describe('imageOf', () => {
  it('names what upstream publishes', () => {
    expect(imageOf({ name: 'kube-apiserver', version: '1.36.3' })).toBe(
      'registry.k8s.io/kube-apiserver:v1.36.3',
    );
    expect(imageOf({ name: 'kube-controller-manager', version: '1.36.3' })).toBe(
      'registry.k8s.io/kube-controller-manager:v1.36.3',
    );
    expect(imageOf({ name: 'kube-scheduler', version: '1.35.0' })).toBe(
      'registry.k8s.io/kube-scheduler:v1.35.0',
    );
    expect(imageOf({ name: 'kubectl', version: '1.36.3' })).toBe('registry.k8s.io/kubectl:v1.36.3');
    expect(imageOf({ name: 'kwok', version: '0.8.0' })).toBe('registry.k8s.io/kwok/kwok:v0.8.0');
  });

  it('knows how the tags of etcd changed', () => {
    const tags = ['3.5.21', '3.6.4', '3.6.5', '3.6.10', '3.7.3', '4.0.0'].map((version) =>
      imageOf({ name: 'etcd', version }).replace('registry.k8s.io/etcd:', ''),
    );
    expect(tags).toEqual(['3.5.21-0', '3.6.4-0', 'v3.6.5', 'v3.6.10', 'v3.7.3', 'v4.0.0']);
  });

  it('takes a mirror that keeps the paths', () => {
    expect(imageOf({ name: 'kwok', version: '0.8.0' }, 'mirror.example:5000/k8s/')).toBe(
      'mirror.example:5000/k8s/kwok/kwok:v0.8.0',
    );
  });
});
