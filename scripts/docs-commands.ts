/** A block of code in a page. */
export interface CodeBlock {
  /** Of its first line in the page, from 1. */
  readonly line: number;
  readonly language: string;
  readonly text: string;
  /** Whether `<!-- run -->` stands before it: a test runs it. */
  readonly isRun: boolean;
}

export function codeBlocks(markdown: string): CodeBlock[] {
  const blocks: CodeBlock[] = [];
  const lines = markdown.split('\n');
  let start: number | undefined;
  let language = '';
  let isRun = false;
  for (const [index, line] of lines.entries()) {
    const fence = /^```(\w*)/.exec(line);
    if (fence === null) {
      if (start === undefined && line.trim() !== '') isRun = line.trim() === '<!-- run -->';
      continue;
    }
    if (start === undefined) {
      start = index + 1;
      language = fence[1] ?? '';
      continue;
    }
    blocks.push({ line: start + 1, language, text: lines.slice(start, index).join('\n'), isRun });
    start = undefined;
    isRun = false;
  }
  return blocks;
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
