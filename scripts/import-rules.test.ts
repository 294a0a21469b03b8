import { describe, expect, it } from 'vitest';
import {
  findFolderCircles,
  findImportCircles,
  findImportFaults,
  type SourceFile,
  sourceFile,
} from './import-rules.ts';

/** The faults of one import in a project where the given folders have an `index.ts`. */
function faults(path: string, target: string, ...indexed: string[]): string[] {
  const others = indexed.map((folder) => ({ path: `${folder}/index.ts`, imports: [] }));
  return findImportFaults([{ path, imports: [target] }, ...others]);
}

describe('the import rule', () => {
  it('lets syncer and vc-manager import api and kube', () => {
    for (const target of ['kube/index.ts', 'api/labels.ts']) {
      expect(faults('syncer/reconcile/reconciler.ts', target)).toEqual([]);
      expect(faults('vc-manager/operator/operator.ts', target)).toEqual([]);
    }
  });

  it('keeps syncer and vc-manager from importing each other', () => {
    expect(faults('syncer/reconcile/reconciler.ts', 'vc-manager/pki/issue.ts')).toHaveLength(1);
    expect(faults('vc-manager/cli/up.ts', 'syncer/syncer.ts')).toHaveLength(1);
  });

  it('keeps kube from importing syncer, and api from importing any package but zod', () => {
    expect(faults('kube/client.ts', 'syncer/workqueue/index.ts')).toHaveLength(1);
    expect(faults('api/labels.ts', 'syncer/syncer.ts')).toHaveLength(1);
    expect(findImportFaults([{ path: 'api/policy.ts', imports: [], packages: ['zod'] }])).toEqual([]);
    expect(findImportFaults([{ path: 'api/policy.ts', imports: [], packages: ['node:fs'] }])).toHaveLength(1);
  });

  it('lets api import only types of kube', () => {
    const [path, target] = ['api/policy.ts', 'kube/index.ts'];
    expect(findImportFaults([{ path, imports: [target], typeImports: [target] }])).toEqual([]);
    expect(faults(path, target)).toHaveLength(1);
  });

  it('keeps what runs in the browser apart from what serves it', () => {
    expect(faults('dashboard/page/app.ts', 'dashboard/page/ui.ts')).toEqual([]);
    expect(faults('dashboard/page/app.ts', 'dashboard/views.ts')).toHaveLength(1);
    expect(faults('dashboard/dashboard.ts', 'dashboard/page/api.ts')).toHaveLength(1);
    const types = (target: string) =>
      findImportFaults([{ path: 'dashboard/page/app.ts', imports: [target], typeImports: [target] }]);
    expect(types('dashboard/types.ts')).toEqual([]);
    expect(types('api/pod-report.ts')).toEqual([]);
    expect(types('dashboard/views.ts')).toHaveLength(1);
    expect(faults('dashboard/page/app.ts', 'api/pod-report.ts')).toHaveLength(1);
    expect(faults('vc-manager/cli/dashboard/serve.ts', 'dashboard/assets.ts')).toEqual([]);
    expect(faults('dashboard/dashboard.ts', 'vc-manager/cli/errors.ts')).toHaveLength(1);
  });

  it('enters a folder that has an index.ts only through it', () => {
    expect(faults('syncer/reconcile/reconciler.ts', 'syncer/workqueue/index.ts', 'syncer/workqueue')).toEqual(
      [],
    );
    expect(
      faults('syncer/reconcile/reconciler.ts', 'syncer/workqueue/heap.ts', 'syncer/workqueue'),
    ).toHaveLength(1);
    expect(faults('syncer/workqueue/fair-queue.ts', 'syncer/workqueue/heap.ts', 'syncer/workqueue')).toEqual(
      [],
    );
    expect(faults('vc-manager/cli/up.ts', 'kube/store.ts', 'kube')).toHaveLength(1);
  });

  it('lets a folder without an index.ts be imported file by file', () => {
    expect(faults('syncer/reconcile/reconciler.ts', 'syncer/workqueue/heap.ts')).toEqual([]);
    expect(faults('vc-manager/operator/operator.ts', 'vc-manager/etcd/errors.ts')).toEqual([]);
  });

  it('keeps kinds from importing each other, but for what they share and for shapes', () => {
    expect(faults('syncer/kinds/secrets.ts', 'syncer/kinds/ingresses.ts')).toHaveLength(1);
    expect(faults('syncer/kinds/pods/admission.ts', 'syncer/kinds/namespaces.ts')).toHaveLength(1);
    expect(faults('syncer/kinds/references.ts', 'syncer/kinds/nodes.ts')).toHaveLength(1);
    expect(faults('syncer/kinds/secrets.ts', 'syncer/kinds/contract.ts')).toEqual([]);
    expect(faults('syncer/kinds/pods/pods.ts', 'syncer/kinds/pods/status.ts')).toEqual([]);
    expect(faults('syncer/kinds/pods/translate.ts', 'syncer/kinds/services/types.ts')).toEqual([]);
    expect(faults('syncer/kinds/registry.ts', 'syncer/kinds/nodes.ts')).toEqual([]);
  });

  it('keeps mapping and workqueue from importing other folders of the syncer', () => {
    expect(faults('syncer/mapping/names.ts', 'syncer/kinds/contract.ts')).toHaveLength(1);
    expect(faults('syncer/workqueue/runner.ts', 'syncer/reconcile/keys.ts')).toHaveLength(1);
    expect(faults('syncer/mapping/names.ts', 'syncer/context.ts')).toEqual([]);
    expect(faults('syncer/mapping/names.test.ts', 'syncer/kinds/testing.ts')).toEqual([]);
  });

  it('keeps test helpers out of the product', () => {
    expect(faults('syncer/reconcile/reconciler.ts', 'kube/testing/index.ts')).toHaveLength(1);
    expect(faults('syncer/reconcile/reconciler.ts', 'syncer/testing.ts')).toHaveLength(1);
    expect(faults('syncer/reconcile/reconciler.test.ts', 'kube/testing/index.ts')).toEqual([]);
  });
});

describe('import circles', () => {
  const circles = (imports: Record<string, string[]>): string[][] =>
    findImportCircles(
      Object.entries(imports).map(([path, targets]): SourceFile => ({ path, imports: targets })),
    );

  it('are not found where there are none, even if many import the same file', () => {
    expect(circles({ a: ['b', 'c'], b: ['d'], c: ['d'], d: [] })).toEqual([]);
  });

  it('are told file by file, one shortest circle for each group', () => {
    expect(circles({ a: ['b'], b: ['c'], c: ['d', 'b'], d: ['a'] })).toEqual([['b', 'c', 'b']]);
    expect(circles({ a: ['b'], b: ['a'], c: ['d'], d: ['e', 'a'], e: ['c'] })).toEqual([
      ['a', 'b', 'a'],
      ['c', 'd', 'e', 'c'],
    ]);
  });

  it('count a file that imports itself', () => {
    expect(circles({ a: ['a'] })).toEqual([['a', 'a']]);
  });
});

describe('circles of folders', () => {
  const circles = (imports: Record<string, string[]>): string[][] =>
    findFolderCircles(
      Object.entries(imports).map(([path, targets]): SourceFile => ({ path, imports: targets })),
    );

  it('are found where no file is in a circle', () => {
    expect(circles({ 's/a/1.ts': ['s/b/1.ts'], 's/b/2.ts': ['s/c/1.ts'], 's/c/2.ts': ['s/a/2.ts'] })).toEqual(
      [['s/a', 's/b', 's/c', 's/a']],
    );
  });

  it('are none of a folder with one inside it, nor of tests', () => {
    expect(circles({ 's/1.ts': ['s/a/1.ts'], 's/a/1.ts': ['s/2.ts'] })).toEqual([]);
    expect(circles({ 's/a/1.ts': ['s/b/1.ts'], 's/b/1.test.ts': ['s/a/1.ts'] })).toEqual([]);
    expect(circles({ 's/a/1.ts': ['s/b/1.ts'], 's/b/testing/2.ts': ['s/a/1.ts'] })).toEqual([]);
  });
});

describe('what a file imports', () => {
  it('is found however it is written', () => {
    const text = `
      import { readFileSync } from 'node:fs';
      import './effect.ts';
      import type { Policy } from '../api/policy.ts';
      import { type Clock } from '../kube/clock.ts';
      export * from './all.ts';
      export type { Row } from '../api/rows.ts';
      export { one } from '../kube/one.ts';
      const lazy = () => import("./lazy.ts");
      const computed = () => import(readFileSync('a', 'utf8'));
    `;
    const { path, imports, typeImports, packages } = sourceFile('syncer/engine.ts', text);
    expect(path).toBe('syncer/engine.ts');
    expect(imports.toSorted()).toEqual([
      ...['api/policy.ts', 'api/rows.ts', 'kube/clock.ts', 'kube/one.ts'],
      ...['syncer/all.ts', 'syncer/effect.ts', 'syncer/lazy.ts'],
    ]);
    expect(typeImports?.toSorted()).toEqual(['api/policy.ts', 'api/rows.ts']);
    expect(packages).toEqual(['node:fs']);
  });

  it('is no type where it is imported as a value, too', () => {
    const text = `import type { Clock } from './clock.ts'; import { systemClock } from './clock.ts';`;
    expect(sourceFile('kube/lease.ts', text)).toMatchObject({ imports: ['kube/clock.ts'], typeImports: [] });
  });

  it('is not nothing where the file cannot be parsed', () => {
    expect(() => sourceFile('kube/lease.ts', `import { from './clock.ts'`)).toThrow('kube/lease.ts: ');
  });
});
