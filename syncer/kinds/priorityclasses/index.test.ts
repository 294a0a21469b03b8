import { describe, expect, it } from 'vitest';
import { annotationKeys, labelKeys } from '../../../api/labels.ts';
import type { KubeObject } from '../../../kube/index.ts';
import { allKinds } from '../index.ts';
import { carryOut, testContext } from '../testing.ts';
import { priorityClassKind as kind } from './index.ts';

function priorityClass(change: Partial<KubeObject> = {}, name = 'batch'): KubeObject {
  return {
    apiVersion: 'scheduling.k8s.io/v1',
    kind: 'PriorityClass',
    metadata: { name, uid: `uid-of-${name}`, labels: { [labelKeys.public]: 'true' } },
    value: 1000,
    preemptionPolicy: 'Never',
    description: 'waits its turn',
    ...change,
  };
}

const context = (tenantObjects: KubeObject[] = [], superObjects: KubeObject[] = []) =>
  testContext({ tenantObjects, superObjects, kinds: allKinds });

describe('a published PriorityClass', () => {
  it('comes up with its value and with its policy of preemption, so that nobody preempts who may not', () => {
    expect(kind.toTenant(priorityClass(), context())).toEqual({
      apiVersion: 'scheduling.k8s.io/v1',
      kind: 'PriorityClass',
      metadata: { name: 'batch', annotations: { [annotationKeys.uid]: 'uid-of-batch' } },
      value: 1000,
      preemptionPolicy: 'Never',
      description: 'waits its turn',
    });
  });

  it('is made anew when its value or its policy has changed, and patched when only its words have', () => {
    const copy = kind.toTenant(priorityClass(), context());
    expect(kind.up(copy, priorityClass({ value: 1001 }), context())).toEqual([{ do: 'deleteTenant' }]);
    const preempts = priorityClass({ preemptionPolicy: 'PreemptLowerPriority' });
    expect(kind.up(copy, preempts, context())).toEqual([{ do: 'deleteTenant' }]);
    const reworded = priorityClass({ description: 'waits' });
    expect(kind.up(copy, reworded, context())).toEqual([
      { do: 'patchTenant', patch: { description: 'waits' } },
    ]);
  });

  it('is not one of those that every API server makes itself', () => {
    const system = priorityClass({ value: 2_000_000_000 }, 'system-cluster-critical');
    expect(kind.tenantRef(system, context())).toBeUndefined();
    expect(kind.tenantRef(priorityClass(), context())).toEqual({ name: 'batch' });
    expect(kind.tenantRef(priorityClass({ metadata: { name: 'batch' } }), context())).toBeUndefined();
  });
});

describe('the published default', () => {
  const original = priorityClass({ globalDefault: true });
  const own = priorityClass({ metadata: { name: 'mine' }, globalDefault: true });

  it('is the default of the tenant too: its API server gives its pods what the super cluster would', () => {
    const copy = kind.toTenant(original, context());
    expect(copy['globalDefault']).toBe(true);
    const edited = { ...copy, globalDefault: false };
    const actions = kind.up(edited, original, context([edited]));
    expect(carryOut({ tenantObject: edited, superObject: original }, actions).tenantObject).toEqual(copy);
  });

  it('steps back while the tenant has a default of its own, as an API server bears only one', () => {
    expect(kind.toTenant(original, context([own]))['globalDefault']).toBeUndefined();
    const copy = kind.toTenant(original, context());
    expect(kind.up(copy, original, context([own, copy]))).toEqual([
      { do: 'patchTenant', patch: { globalDefault: null } },
    ]);
  });

  it('is looked at again when that one comes and when it goes', () => {
    const both = context([own], [original, priorityClass({}, 'other')]);
    expect(kind.touches?.tenant?.(own, both)).toEqual([{ kind: 'priorityclasses', name: 'batch' }]);
    expect(kind.touches?.tenant?.(kind.toTenant(original, context()), both)).toEqual([]);
  });
});
