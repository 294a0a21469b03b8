import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { attempts, attemptsTable } from './attempts.ts';
import { runningTitles } from './running-titles.ts';

const root = join(import.meta.dirname, '..', '..');
const read = (path: string): string => readFileSync(join(root, path), 'utf8');

describe('the table of attacks in docs/security.md', () => {
  const page = read('docs/security.md');
  const [, shown = ''] = /<!-- attacks:begin -->\n([\s\S]*?)<!-- attacks:end -->/.exec(page) ?? [];
  /** Without the padding that formatters add. */
  const plain = (table: string): string => table.replaceAll(/ +\|/g, ' |').replaceAll(/-{3,}/g, '---').trim();

  it('is that of test/attacks/attempts.ts', async () => {
    if (process.env['SKERRY_WRITE_ATTACKS'])
      writeFileSync(
        join(root, 'docs/security.md'),
        page.replace(
          /<!-- attacks:begin -->\n[\s\S]*?<!-- attacks:end -->/,
          () => `<!-- attacks:begin -->\n\n${attemptsTable()}\n\n<!-- attacks:end -->`,
        ),
      );
    else expect(plain(shown)).toBe(plain(attemptsTable()));
  });

  it.each(attempts)('names a test that runs: $test', ({ test }) => {
    const [path = '', title = ''] = test.split(' › ');
    expect(runningTitles(read(path)).some((each) => each.includes(title))).toBe(true);
  });
});

describe('the titles of tests that run', () => {
  it.each([
    "it('has a title', () => {});",
    'it("has a title", () => {});',
    'it(`has a title of ${it}`, () => {});',
    "it.each([1])('has a title of %s', () => {});",
    "itBroadly('has a title', () => {});",
    "it.runIf(isRoot)('has a title', () => {});",
    "describe('has a title', () => { it('too', () => {}); });",
  ])('are those of %s', (source) => {
    expect(runningTitles(source).some((title) => title.startsWith('has a title'))).toBe(true);
  });

  it.each([
    "// it('has a title', () => {});",
    "/* it('has a title', () => {}); */",
    "it.skip('has a title', () => {});",
    "it.todo('has a title');",
    "it.fails('has a title', () => {});",
    "it.skip.each([1])('has a title', () => {});",
    "it('has a title', { skip: true }, () => {});",
    "describe.skip('a group', () => { it('has a title', () => {}); });",
    "describe('has a title', () => {});",
    "describe('has a title', () => { it.skip('too', () => {}); });",
    "expect(text).toBe('has a title');",
    "const title = 'has a title';",
  ])('are not those of %s', (source) => {
    expect(runningTitles(source)).not.toContain('has a title');
  });
});
