import { describe, expect, it } from 'vitest';
import { findImportFaults } from './import-rules.ts';

function faults(path: string, target: string): string[] {
  return findImportFaults([{ path, imports: [target] }]);
}

describe('the import rule', () => {
  it('lets syncer and vc-manager import kube', () => {
    expect(faults('syncer/engine/engine.ts', 'kube/index.ts')).toEqual([]);
    expect(faults('vc-manager/operator/operator.ts', 'kube/index.ts')).toEqual([]);
  });

  it('keeps syncer and vc-manager from knowing each other', () => {
    expect(faults('syncer/engine/engine.ts', 'vc-manager/api/index.ts')).toHaveLength(1);
    expect(faults('vc-manager/cli/up.ts', 'syncer/syncer.ts')).toHaveLength(1);
  });

  it('keeps kube from knowing anybody', () => {
    expect(faults('kube/client.ts', 'syncer/queue/index.ts')).toHaveLength(1);
  });

  it('lets nobody past the door of a room', () => {
    expect(faults('syncer/engine/engine.ts', 'syncer/queue/index.ts')).toEqual([]);
    expect(faults('syncer/engine/engine.ts', 'syncer/queue/ring.ts')).toHaveLength(1);
    expect(faults('syncer/queue/fair-queue.ts', 'syncer/queue/ring.ts')).toEqual([]);
    expect(faults('vc-manager/cli/up.ts', 'kube/store.ts')).toHaveLength(1);
  });

  it('keeps test helpers out of the product', () => {
    expect(faults('syncer/engine/engine.ts', 'kube/testing/index.ts')).toHaveLength(1);
    expect(faults('syncer/engine/engine.test.ts', 'kube/testing/index.ts')).toEqual([]);
  });
});
