import { describe, expect, it } from 'vitest';
import type { KubeObject } from '../../kube/index.ts';
import { malformedAdmission, wellFormed } from './well-formed.ts';

const read = wellFormed({ spec: 'PodSpec', status: 'PodStatus' });

function pod(spec: unknown, status?: unknown): KubeObject {
  return { metadata: { name: 'web' }, spec, ...(status === undefined ? {} : { status }) } as KubeObject;
}

describe('an object of a tenant', () => {
  it('is itself where all is well, with fields that Kubernetes may have one day', () => {
    const fine = pod(
      { containers: [{ name: 'web', image: 'web' }], newField: { a: null } },
      { startTime: null },
    );
    expect(read(fine)).toBe(fine);
    expect(malformedAdmission(fine)).toBeUndefined();
  });

  it('is without nulls, which an API server takes for absent', () => {
    const containers = [{ name: 'web', command: null, env: [{ name: 'A', valueFrom: null }] }];
    const found = read(pod({ containers, hostNetwork: null }));
    expect(found).toEqual(pod({ containers: [{ name: 'web', env: [{ name: 'A' }] }] }));
    expect(malformedAdmission(found)).toBeUndefined();
  });

  it.each<[string, unknown, unknown]>([
    ['spec.hostNetwork', { hostNetwork: 'yes', nodeName: 'n', newField: 1 }, { nodeName: 'n', newField: 1 }],
    ['spec.containers[0].image', { containers: [{ image: 1 }], nodeName: 'n' }, { nodeName: 'n' }],
    ['spec', 'no object', {}],
  ])('is without what is of another type, and is not to go down (%s)', (path, spec, left) => {
    const found = read(pod(spec));
    expect(found['spec']).toEqual(left);
    expect(malformedAdmission(found)).toMatchObject({
      wanted: false,
      keep: true,
      notice: { reason: 'InvalidField', message: expect.stringContaining(`${path} is not of`) },
    });
  });

  it('is not to go down by its status, either', () => {
    const found = read(pod({ nodeName: 'n' }, { phase: 1, hostIP: '10.0.0.1' }));
    expect(found).toMatchObject({ spec: { nodeName: 'n' }, status: { hostIP: '10.0.0.1' } });
    expect(found['status']).not.toHaveProperty('phase');
    expect(malformedAdmission(found)).toMatchObject({ wanted: false });
  });
});
