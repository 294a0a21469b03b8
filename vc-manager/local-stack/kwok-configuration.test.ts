import { describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { kwokConfiguration } from './kwok-configuration.ts';

interface StageObject {
  kind: string;
  metadata: { name: string };
  spec?: {
    delay?: { durationMilliseconds: number };
    steps: { patch?: { root?: string; template: string }; delete?: boolean }[];
  };
}

describe('kwokConfiguration', () => {
  const documents = parseAllDocuments(kwokConfiguration()).map((document) => document.toJS() as StageObject);

  it('consists of the options and of stages with names of their own', () => {
    const stages = documents.filter((document) => document.kind === 'Stage');
    expect(documents.map((document) => document.kind)).toEqual([
      'KwokConfiguration',
      ...stages.map(() => 'Stage'),
    ]);
    expect(new Set(stages.map((stage) => stage.metadata.name)).size).toBe(stages.length);
  });

  it('changes nothing of another object that has the name by then', () => {
    const patches = documents
      .flatMap((document) => document.spec?.steps ?? [])
      .flatMap(({ patch = [] }) => patch);
    expect(patches.length).toBeGreaterThan(0);
    for (const { root, template } of patches) {
      expect(root).toBeUndefined();
      expect(template).toMatch(/^metadata:\n {2}uid: \{\{ \.metadata\.uid \| Quote \}\}\nstatus:\n/);
      const [, status = ''] = template.split('\nstatus:\n');
      expect(status.split('\n').filter((line) => /^\S/.test(line))).toEqual([]);
    }
  });

  it('deletes a pod for one event alone, and by no change of its own makes another one', () => {
    const deleting = documents.filter((document) => document.spec?.steps.some((step) => step.delete));
    for (const { spec } of deleting) expect(spec?.steps).toEqual([{ delete: true }]);
    const [first, again, ...others] = deleting;
    expect(others).toEqual([]);
    expect(first?.spec?.delay).toBeUndefined();
    // Long enough to hear that the first one was heard.
    expect(again?.spec?.delay?.durationMilliseconds).toBeGreaterThan(1000);
  });

  it('closes every block that its templates open', () => {
    const templates = documents
      .flatMap((document) => document.spec?.steps ?? [])
      .map((step) => step.patch?.template ?? '');
    for (const template of templates) {
      const opened = template.match(/\{\{\s*(if|range|with)\b/g)?.length ?? 0;
      const closed = template.match(/\{\{\s*end\s*\}\}/g)?.length ?? 0;
      expect(closed).toBe(opened);
    }
  });
});
