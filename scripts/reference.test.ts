import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { referencePages } from './reference.ts';

it('the reference says what commands and objects are: node scripts/reference.ts writes it', async () => {
  const pages = await referencePages();
  expect(pages.size).toBe(2);
  for (const [path, text] of pages) {
    expect(text.length).toBeGreaterThan(5_000);
    expect(await readFile(join(import.meta.dirname, '..', path), 'utf8'), path).toBe(text);
  }
});
