import { describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { kwokConfiguration } from './kwok-configuration.ts';

interface StageObject {
  kind: string;
  metadata: { name: string };
  spec?: { steps: { patch?: { template: string } }[] };
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
