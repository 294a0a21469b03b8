import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { attempts, attemptsTable } from './attempts.ts';
import { type RunningTest, runningTests } from './running-tests.ts';

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
    expect(testsNamed(test).length).toBeGreaterThan(0);
  });

  it.each(attempts)('names the control of $test', ({ test, control }) => {
    const isTest = control.includes('› ');
    if (!isTest) return expect(testsNamed(test).some(({ text }) => has(text, control))).toBe(true);
    const [path = ''] = test.split(' › ');
    const other = control.startsWith('› ') ? `${path} ${control}` : control;
    expect(other).not.toBe(test);
    return expect(testsNamed(other).length).toBeGreaterThan(0);
  });
});

/** Tests that run of a `path › title`, whose title may be cut at its end. */
function testsNamed(test: string): RunningTest[] {
  const [path = '', title = ''] = test.split(' › ');
  return runningTests(read(path)).filter((each) => each.title.includes(title));
}

/** Whether code has a piece, wherever its lines are broken. */
function has(code: string, piece: string): boolean {
  const plain = (text: string): string => text.replaceAll(/\s+/g, '').replaceAll(/,(?=[)\]}])/g, '');
  return plain(code).includes(plain(piece));
}

describe('the titles of tests that run', () => {
  it.each([
    "it('has a title', () => {});",
    'it("has a title", () => {});',
    'it(`has a title of ${it}`, () => {});',
    "it.each([1])('has a title of %s', () => {});",
    "itInTestAll('has a title', () => {});",
    "it.runIf(isRoot)('has a title', () => {});",
    "describe('has a title', () => { it('too', () => {}); });",
  ])('are those of %s', (source) => {
    expect(runningTests(source).some(({ title }) => title.startsWith('has a title'))).toBe(true);
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
    expect(runningTests(source).map(({ title }) => title)).not.toContain('has a title');
  });

  it('have their code without comments', () => {
    const [test] = runningTests("it('has a title', () => { /* a(); */ b(); // c();\n });");
    expect(test?.text).toContain('b();');
    expect(test?.text).not.toMatch(/[ac]\(/);
  });
});
