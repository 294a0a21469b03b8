import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Command, CommanderError } from 'commander';
import { describe, expect, it } from 'vitest';
import { systemClock } from '../kube/index.ts';
import { buildProgram } from '../vc-manager/cli/program.ts';
import { Captured } from '../vc-manager/cli/testing/captured.ts';
import { parseArguments } from './bench/options.ts';
import { scenarios } from './bench/run.ts';
import {
  codeBlocks,
  commandLines,
  hasCommands,
  hintedCommands,
  inlineCommands,
  scriptOf,
  scriptRunBy,
  shownOptions,
} from './docs-commands.ts';

const root = join(import.meta.dirname, '..');
const tracked = (pattern: string): string[] =>
  execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', pattern], {
    cwd: root,
    encoding: 'utf8',
  })
    .split('\n')
    .filter((path) => path !== '' && existsSync(join(root, path)));
const pages = tracked('*.md')
  // The changelog tells of the past, and the reference is what commands say themselves.
  .filter((path) => path !== 'CHANGELOG.md' && path !== 'docs/reference-cli.md');

async function programFor(name: string, output: Captured): Promise<Command> {
  return buildProgram([name], {
    env: {},
    stdout: output,
    stderr: output,
    clock: systemClock,
    signal: new AbortController().signal,
    onSignal: () => undefined,
    outlivesReader: () => undefined,
    setExitCode: () => undefined,
  });
}

/** What the command line's own parser has against these words; undefined: it takes them. */
async function objection(words: readonly string[]): Promise<string | undefined> {
  const output = new Captured();
  const [name = ''] = words;
  const program = await programFor(name, output);
  for (const command of program.commands) command.action(() => undefined);
  try {
    await program.parseAsync([...words], { from: 'user' });
    return undefined;
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return undefined;
    return output.text || String(error);
  }
}

/** With something in the place of the reader's own words. */
const filled = (words: readonly string[]): string[] =>
  words.map((word) => {
    if (word === 'VERSION' || word === 'V') return '1.36';
    if (word === 'HOST:PORT') return '127.0.0.1:1';
    return /^[A-Z][A-Z_-]*$/.test(word) ? word.toLowerCase() : word;
  });

/** The same of a command that a sentence names, and which may leave out what follows from the sentence. */
async function objectionInProse(words: readonly string[]): Promise<string | undefined> {
  if (words[0] === 'COMMAND') return undefined;
  const said = await objection(filled(words));
  const isShort = /missing required argument|required option .* not specified|argument missing/.test(
    said ?? '',
  );
  return isShort ? undefined : said;
}

/** Once for all hints of a command: each loads it. */
const commandsByName = new Map<string, Promise<Command>>();
const programOf = (name: string): Promise<Command> => {
  const known = commandsByName.get(name) ?? programFor(name, new Captured());
  commandsByName.set(name, known);
  return known;
};

describe('commands that messages name', () => {
  const sources = ['api', 'dashboard', 'gateway', 'program', 'syncer', 'vc-manager']
    .flatMap((folder) => tracked(`${folder}/*.ts`))
    .filter((path) => !/\.test\.ts$|\/testing\//.test(path));
  const hints = sources
    .flatMap((path) =>
      hintedCommands(readFileSync(join(root, path), 'utf8')).map((hint) => ({ path, ...hint })),
    )
    .filter(({ text }, index, all) => all.findIndex((each) => each.text === text) === index);

  it('are such that vc-manager takes them', async () => {
    expect(hints.length).toBeGreaterThan(40);
    const wrong: string[] = [];
    for (const { path, words, text } of hints) {
      const said = await objectionInProse(words);
      if (said !== undefined) wrong.push(`${path}: ${text}: ${said}`);
    }
    expect(wrong).toEqual([]);
  });

  it('name the namespace of the tenant that they are about', async () => {
    const wrong: string[] = [];
    for (const { path, words, text } of hints) {
      const [name = ''] = words;
      const program = await programOf(name);
      const command = program.commands.find((each) => each.name() === name || each.aliases().includes(name));
      const takesOne = command?.options.some(({ long }) => long === '--namespace') === true;
      const isAboutOne = /^"vc-manager [a-z-]+(?: [a-z]+)? \$\{/.test(text);
      if (takesOne && isAboutOne && !/namespaceFlag\(| -n |\$\{where\}/.test(text))
        wrong.push(`${path}: ${text}`);
    }
    expect(wrong).toEqual([]);
  });
});

describe('command lines in the documentation', () => {
  it.each(pages)('%s names only those in its sentences and tables that vc-manager takes', async (page) => {
    const wrong: string[] = [];
    for (const words of inlineCommands(readFileSync(join(root, page), 'utf8'))) {
      const said = await objectionInProse(words);
      if (said !== undefined) wrong.push(`${page}: vc-manager ${words.join(' ')}: ${said}`);
    }
    expect(wrong).toEqual([]);
  });

  it.each(pages)('%s names a test that is there for each that it does not run', (page) => {
    const wrong = codeBlocks(readFileSync(join(root, page), 'utf8')).flatMap(({ whyNot, line }) => {
      if (whyNot === undefined) return [];
      const named = whyNot.match(/\btest\/[\w./-]*\w|[\w./-]+\.test\.ts\b|scripts\/[\w-]+\.ts\b/g) ?? [];
      return named.length > 0 && named.every((path) => existsSync(join(root, path)))
        ? []
        : [`${page}:${line}: ${whyNot}`];
    });
    expect(wrong).toEqual([]);
  });

  it.each(pages)('%s names a test that reads it for each that another test runs', (page) => {
    const wrong = codeBlocks(readFileSync(join(root, page), 'utf8')).flatMap(({ runBy, line }) => {
      if (runBy === undefined) return [];
      const isRun =
        tracked(runBy).length === 1 &&
        ['scriptRunBy(', `'${page}'`, `'${runBy}'`].every((word) =>
          readFileSync(join(root, runBy), 'utf8').includes(word),
        );
      return isRun ? [] : [`${page}:${line}: ${runBy}`];
    });
    expect(wrong).toEqual([]);
  });

  it.each(pages)('%s has only those that vc-manager takes', async (page) => {
    const wrong: string[] = [];
    for (const { text, line } of codeBlocks(readFileSync(join(root, page), 'utf8'))) {
      for (const words of commandLines(text)) {
        const said = await objection(filled(words));
        if (said !== undefined) wrong.push(`${page}:${line}: vc-manager ${words.join(' ')}: ${said}`);
      }
    }
    expect(wrong).toEqual([]);
  });

  it.each(pages)('%s shows no options that there are not', async (page) => {
    const wrong: string[] = [];
    for (const { text } of codeBlocks(readFileSync(join(root, page), 'utf8'))) {
      for (const { command: name, options } of shownOptions(text)) {
        const program = await programFor(name, new Captured());
        const command = program.commands.find(
          (each) => each.name() === name || each.aliases().includes(name),
        );
        const known = command?.options.map(({ long }) => long);
        for (const option of options) if (known?.includes(option) !== true) wrong.push(`${name} ${option}`);
      }
    }
    expect(wrong).toEqual([]);
  });

  it.each(pages)('%s has each run by a test, or says why not', (page) => {
    const blocks = codeBlocks(readFileSync(join(root, page), 'utf8'));
    const place = ({ line, text }: { line: number; text: string }) =>
      `${page}:${line}: ${text.split('\n')[0]}`;
    const skipped = blocks.filter(
      (block) =>
        hasCommands(block) && !block.isRun && block.runBy === undefined && block.whyNot === undefined,
    );
    expect(skipped.map(place)).toEqual([]);
    const idle = blocks.filter(
      (block) =>
        !hasCommands(block) && (block.isRun || block.runBy !== undefined || block.whyNot !== undefined),
    );
    expect(idle.map(place)).toEqual([]);
  });

  it('of the benchmark are such that it takes them', () => {
    const page = readFileSync(join(root, 'docs/performance.md'), 'utf8');
    const lines = page.match(/^npm run bench -- (?!compare|--help).*/gm) ?? [];
    expect(lines.length).toBeGreaterThan(5);
    for (const line of lines) {
      const [command = ''] = line.split(/ +#/);
      const words = command.split(' ').slice(4);
      expect(parseArguments(words, scenarios), line).toMatchObject({ timeoutMs: expect.any(Number) });
    }
    expect(() => parseArguments(['burst', '--no-such-option'], scenarios)).toThrow('unknown option');
  });

  it('are skipped with a reason alone', () => {
    const block = (marker: string, text = 'vc-manager list', language = 'sh') =>
      codeBlocks(`${marker}\n\n\`\`\`${language}\n${text}\n\`\`\``)[0];
    expect(block('<!-- not run: it needs helm -->')).toMatchObject({ isRun: false, whyNot: 'it needs helm' });
    expect(block('<!-- not run: -->')).toMatchObject({ isRun: false, whyNot: undefined });
    expect(block('<!-- run --> or so')).toMatchObject({ isRun: false, whyNot: undefined });
    for (const text of [
      'vc-manager list # ...',
      'helm install x',
      '  kubectl get pods',
      'x=$(vc-manager list)',
    ])
      expect([text, hasCommands({ language: '', text })]).toEqual([text, true]);
    for (const text of ['vc-manager create NAME [-n NAMESPACE]', 'vc-manager up --warm 4 ...', 'spec: {}'])
      expect([text, hasCommands({ language: '', text })]).toEqual([text, false]);
    expect(hasCommands({ language: 'yaml', text: 'kubectl get pods' })).toBe(false);
  });

  it("of a page are one script, with values in the place of the reader's own words", () => {
    const text = 'vc-manager describe NAME --of NAMESPACE';
    const page = `<!-- run with NAME=blue -->\n\n\`\`\`sh\n${text}\n\`\`\`\n\n\`\`\`sh\nrm\n\`\`\``;
    expect(scriptOf(codeBlocks(page))).toMatch(/block=4\nvc-manager describe blue --of NAMESPACE$/);
    expect(scriptOf(codeBlocks(page))).not.toContain('rm');
  });

  it('of a block that another test runs are a script of its own', () => {
    const page = '<!-- run by test/a.test.ts -->\n\n```\nhelm upgrade skerry chart\n```\n';
    expect(codeBlocks(page)).toMatchObject([{ isRun: false, runBy: 'test/a.test.ts', whyNot: undefined }]);
    expect(scriptRunBy(page, 'test/a.test.ts', 'helm upgrade', { skerry: 'x', chart: 'y' })).toBe(
      'helm upgrade x y',
    );
    expect(() => scriptRunBy(page, 'test/b.test.ts', 'helm')).toThrow('0 blocks begin with "helm"');
    expect(() => scriptRunBy(page + page, 'test/a.test.ts', 'helm')).toThrow('2 blocks');
    expect(() => scriptRunBy(page, 'test/a.test.ts', 'helm', { kubectl: 'x' })).toThrow('"kubectl" does not');
  });

  it('are found, and wrong ones are told', async () => {
    const text =
      '```sh\nnpx vc-manager create a \\\n  --wait   # one\nvc-manager list > f\nvc-manager x [-n N]\n```';
    const [block] = codeBlocks(`<!-- run -->\n\n${text}`);
    expect(block).toMatchObject({ isRun: true, language: 'sh', line: 4 });
    expect(commandLines(block?.text ?? '')).toEqual([['create', 'a', '--wait'], ['list']]);
    expect(shownOptions(block?.text ?? '')).toEqual([{ command: 'x', options: [] }]);
    expect(inlineCommands('`vc-manager logs NAME > log`, `vc-manager`\n```\n`vc-manager x`\n```\n')).toEqual([
      ['logs', 'NAME'],
    ]);
    expect(hintedCommands('throw new X(`"vc-manager jobs ${name}${at(ref)} --wait" does`)')).toMatchObject([
      { words: ['jobs', 'xx', '--wait'] },
    ]);
    expect(await objection(['create', 'a', '--no-such-option'])).toContain('unknown option');
    expect(await objection(['create', 'a', '--timeout', 'soon'])).toBeDefined();
    expect(await objection(['create'])).toContain('missing required argument');
  });
});
