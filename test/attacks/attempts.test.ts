import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { attempts, attemptsTable } from './attempts.ts';

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

  it.each(attempts)('names a test that exists: $test', ({ test }) => {
    const [path = '', title = ''] = test.split(' › ');
    // Titles stand in quotes of one sort or another.
    const text = read(path).replaceAll("\\'", "'");
    expect(text).toContain(title);
  });
});
