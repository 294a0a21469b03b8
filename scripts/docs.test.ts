import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';

const root = join(import.meta.dirname, '..');
const tracked = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
  cwd: root,
  encoding: 'utf8',
})
  .split('\n')
  .filter((path) => path !== '' && existsSync(join(root, path)));
const read = (path: string): string => readFileSync(join(root, path), 'utf8');
const pages = tracked.filter((path) => path.endsWith('.md'));

/** Paths from the root that a page names in code spans or code blocks: `syncer/kinds/pods/status.ts`, `docs/cli.md`. */
function namedPaths(text: string): string[] {
  const folders =
    'api|kube|program|gateway|dashboard|syncer|vc-manager|scripts|test|docs|deploy|bin|tenant-apiserver-templates';
  const found = text.matchAll(new RegExp(`(?<![\\w./-])(?:${folders})/[\\w./-]*\\w(?:/(?=[\`\\s]))?`, 'g'));
  return [...found].map(([path]) => path.replace(/\/$/, '')).filter((path) => !path.includes('..'));
}

/** Names after `rule` or `rules`, several with commas or `and` between them, also over the lines of a comment. */
function citedRules(text: string): string[] {
  const gap = String.raw`\s+(?:\*\s+|//\s+)?`;
  const found = text.matchAll(
    new RegExp(`\\brules?${gap}((?:\`[a-z-]+\`(?:,?${gap}(?:and${gap})?)?)+)`, 'g'),
  );
  return [...found].flatMap(([, names]) =>
    [...(names as string).matchAll(/`([a-z-]+)`/g)].map(([, name]) => name as string),
  );
}

/** Targets of links without their anchors; addresses of the web are left out. */
function linkTargets(text: string): string[] {
  return [...text.matchAll(/\]\(([^)\s#]+)(?:#[^)]*)?\)/g)]
    .map(([, target]) => target as string)
    .filter((target) => !/^[a-z]+:/.test(target));
}

describe('the documentation', () => {
  // The reference shows what `--help` says, with examples of people's own files.
  const written = pages.filter((page) => !page.startsWith('docs/reference-'));

  it.each(written)('%s names only files that exist', (page) => {
    const missing = namedPaths(read(page)).filter((path) => !existsSync(join(root, path)));
    expect(missing).toEqual([]);
  });

  it.each(pages)('%s links only to pages that exist', (page) => {
    const missing = linkTargets(read(page)).filter(
      (target) => !existsSync(join(root, dirname(page), target)),
    );
    expect(missing).toEqual([]);
  });

  describe('of sync rules', () => {
    const rules = [...read('docs/sync-rules.md').matchAll(/^### ([a-z-]+)$/gm)].map(
      ([, name]) => name as string,
    );
    const cited = tracked
      .filter((each) => each.endsWith('.ts'))
      .flatMap((path) => citedRules(read(path)).map((name) => ({ path, name })));

    it('has a text for every rule that the code cites', () => {
      expect(rules.length).toBeGreaterThan(30);
      expect(cited.filter(({ name }) => !rules.includes(name))).toEqual([]);
    });

    it('has no rule without a test that cites it', () => {
      const inTests = new Set(cited.filter(({ path }) => path.endsWith('.test.ts')).map(({ name }) => name));
      expect(rules.filter((name) => !inTests.has(name))).toEqual([]);
    });
  });
});
