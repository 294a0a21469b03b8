import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { referencePages } from './reference.ts';

const written = referencePages();

it('help is no wider than 100 columns', async () => {
  const help = (await written)
    .get('docs/reference-cli.md')
    ?.split('```')
    .filter((_, index) => index % 2 === 1);
  expect(help?.length).toBeGreaterThan(30);
  expect(help?.flatMap((text) => text.split('\n')).filter((line) => line.length > 100)).toEqual([]);
});

it('the reference says what commands and objects are: node scripts/reference.ts writes it', async () => {
  const pages = await written;
  expect(pages.size).toBe(2);
  for (const [path, text] of pages) {
    expect(text.length).toBeGreaterThan(5_000);
    expect(await readFile(join(import.meta.dirname, '..', path), 'utf8'), path).toBe(text);
  }
});
