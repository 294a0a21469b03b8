/** A block of code in a page. */
export interface CodeBlock {
  /** Of its first line in the page, from 1. */
  readonly line: number;
  readonly language: string;
  readonly text: string;
  /** Whether `<!-- run -->` stands before it, or `<!-- run with NAME=value -->`: a test runs it. */
  readonly isRun: boolean;
  /** What a test writes in the place of words of the reader's own. */
  readonly values: ReadonlyMap<string, string>;
  /** From `<!-- run by FILE -->`: the test in FILE runs it, in a place of its own. */
  readonly runBy: string | undefined;
  /** From `<!-- not run: REASON -->`. */
  readonly whyNot: string | undefined;
}

type Marker = Pick<CodeBlock, 'isRun' | 'values' | 'runBy' | 'whyNot'>;

const unmarked: Marker = { isRun: false, values: new Map(), runBy: undefined, whyNot: undefined };

function markerOf(line: string): Marker {
  const [, run, values = '', runBy, whyNot] =
    /^<!-- (?:(run)(?: with ((?: ?[A-Z_]+=\S+)+))?|run by (\S+)|not run: (.+)) -->$/.exec(line.trim()) ?? [];
  const pairs = [...values.matchAll(/([A-Z_]+)=(\S+)/g)].map(
    ([, name = '', value = '']) => [name, value] as const,
  );
  return { isRun: run !== undefined, values: new Map(pairs), runBy, whyNot };
}

export function codeBlocks(markdown: string): CodeBlock[] {
  const blocks: CodeBlock[] = [];
  const lines = markdown.split('\n');
  let start: number | undefined;
  let language = '';
  let marker = unmarked;
  for (const [index, line] of lines.entries()) {
    const fence = /^```(\w*)/.exec(line);
    if (fence === null) {
      if (start === undefined && line.trim() !== '') marker = markerOf(line);
      continue;
    }
    if (start === undefined) {
      start = index + 1;
      language = fence[1] ?? '';
      continue;
    }
    blocks.push({ line: start + 1, language, text: lines.slice(start, index).join('\n'), ...marker });
    start = undefined;
    marker = unmarked;
  }
  return blocks;
}

/** One script of those of these blocks that are run: what an earlier one sets, a later one has. It stops at the first failure. */
export function scriptOf(blocks: readonly CodeBlock[]): string {
  const parts = blocks
    .filter(({ isRun }) => isRun)
    .map(({ line, text, values }) => `block=${line}\n${filled(text, values)}`);
  return [`trap 'echo "failed in the block of line $block" >&2' ERR`, ...parts].join('\n');
}

/**
 * What is to be typed in the only block of a page that begins so and that the test in `file` runs, with these in the place
 * of words of the page. Throws where there is no such block, and where it has none of a word.
 */
export function scriptRunBy(
  markdown: string,
  file: string,
  beginning: string,
  words: Readonly<Record<string, string>> = {},
): string {
  const [found, ...more] = codeBlocks(markdown).filter(
    ({ runBy, text }) => runBy === file && text.startsWith(beginning),
  );
  if (found === undefined || more.length > 0)
    throw new Error(
      `${more.length + (found ? 1 : 0)} blocks begin with "${beginning}" and are run by ${file}`,
    );
  return Object.entries(words).reduce((text, [word, value]) => {
    if (!text.includes(word)) throw new Error(`"${word}" does not stand in the block of "${beginning}"`);
    return text.replaceAll(word, value);
  }, found.text);
}

function filled(text: string, values: CodeBlock['values']): string {
  return text.replaceAll(/\b[A-Z_]{2,}\b/g, (word) => values.get(word) ?? word);
}

const programs =
  'age-keygen|cd|curl|docker|etcdctl|etcdutl|git|helm|kubectl|node|npm|npx|openssl|source|tar|vc-gateway|vc-manager|vc-syncer';
const commandLine = new RegExp(`^\\s*(?:[A-Z_]+=\\S+ |\\w+=\\$\\()*(?:\\$ )?(?:${programs})\\b`);

/**
 * Whether a block has something to type. A line that shows which options there are (`[-n NAMESPACE]`, `...`) is nothing
 * to type.
 */
export function hasCommands({ language, text }: Pick<CodeBlock, 'language' | 'text'>): boolean {
  if (!['', 'sh', 'bash'].includes(language)) return false;
  return text
    .replaceAll(/\s*\\\n\s*/g, ' ')
    .split('\n')
    .map((line) => line.replace(/\s#.*$/, ''))
    .some((line) => commandLine.test(line) && !/\[-|\[[A-Z]|\.\.\.|\w\|\w/.test(line));
}

/**
 * The command lines of `vc-manager` in a block, each as the words that the program gets: without what a shell makes of
 * comments, pipes and redirections. Lines that only show which options there are (`[-n NAMESPACE]`, `...`) are left out.
 */
export function commandLines(text: string): string[][] {
  const whole = text.replaceAll(/\s*\\\n\s*/g, ' ');
  return whole.split('\n').flatMap((line) => {
    const command = /^\s*(?:[A-Z_]+=\S+ )*(?:\$ )?(?:npx )?(?:vc-manager|kubectl vc) (.+)$/.exec(line)?.[1];
    if (command === undefined || /[[\]|]|\.\.\.|\{/.test(command.replace(/\s#.*| {2,}\S.*/, ''))) return [];
    const [own = ''] = command.split(/ {2,}\S| [#>|] ?|&&|;/);
    return [own.trim().split(/\s+/)];
  });
}

/** Commands and their long options as lines show them that say which there are: `vc-manager trace POD [-n NAMESPACE]`. */
export function shownOptions(text: string): { command: string; options: string[] }[] {
  const whole = text.replaceAll(/\s*\\\n\s*/g, ' ');
  return whole.split('\n').flatMap((line) => {
    const [, command = '', rest = ''] = /^(?:npx )?vc-manager ([a-z-]+)(.*\[.*)$/.exec(line) ?? [];
    if (command === '') return [];
    return [{ command, options: [...rest.matchAll(/--[a-z][a-z-]*/g)].map(([option]) => option) }];
  });
}

/** The command lines of `vc-manager` in code spans, outside of blocks, as `commandLines` has them. */
export function inlineCommands(markdown: string): string[][] {
  const prose = markdown.replaceAll(/^```[\s\S]*?^```/gm, '');
  return [...prose.matchAll(/`([^`]+)`/g)].flatMap(([, span = '']) =>
    commandLines(span.replaceAll('\\|', '|').replaceAll(/\s+/g, ' ')),
  );
}

/**
 * The command lines of `vc-manager` that messages in TypeScript name between quotation marks, each as words with `x` in the
 * place of what is put in, and as it stands in the source.
 */
export function hintedCommands(source: string): { words: string[]; text: string }[] {
  return [...source.matchAll(/"vc-manager ([^"\n]+)"/g)].flatMap(([text, rest = '']) => {
    const own = rest.replaceAll(/\$\{[^}]*\}/g, 'x').trim();
    return /\.\.\.|\[/.test(own) ? [] : [{ words: own.split(/\s+/), text }];
  });
}
