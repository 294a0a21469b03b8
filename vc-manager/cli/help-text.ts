import { type AddHelpTextContext, type AddHelpTextPosition, Command, Help } from 'commander';

/** A command whose texts after its options are no wider than the rest of its help, which Commander prints as they are. */
export class CommandWithHelp extends Command {
  override createCommand(name?: string): Command {
    return new CommandWithHelp(name);
  }

  override addHelpText(
    position: AddHelpTextPosition,
    text: string | ((context: AddHelpTextContext) => string),
  ): this {
    const filled = (context: AddHelpTextContext): string => {
      const { helpWidth = 80 } = context.command.configureHelp();
      return fill(typeof text === 'string' ? text : text(context), helpWidth);
    };
    return super.addHelpText(position, filled);
  }
}

/** Lines that belong together, and may be broken elsewhere. */
interface Block {
  /** What is before the text in the first line: blanks, or what the text explains. */
  readonly head: string;
  readonly lines: string[];
}

/** Where less room than this is left for explanations, they stay as they are. */
const narrowest = 30;
/** Lines that are indented more explain what is before them; others are parts of commands. */
const deepestCommand = 8;

/**
 * Breaks paragraphs, and explanations beside indented commands, at that width; commands stay whole. Explanations of several
 * lines begin at the same column in each.
 */
export function fill(text: string, width: number): string {
  const blocks: Block[] = [];
  for (const line of text.split('\n')) {
    const { head, rest } = partsOf(line);
    const before = blocks.at(-1);
    const isIndent = head.trim() === '';
    const continues = before !== undefined && before.head.length === head.length && isIndent;
    const mayContinue = head.length === 0 || head.length > deepestCommand;
    if (continues && mayContinue && rest !== '' && before.lines[0] !== '') before.lines.push(rest);
    else blocks.push({ head, lines: [rest] });
  }
  return blocks.map((block) => filledBlock(block, width)).join('\n');
}

function partsOf(line: string): { head: string; rest: string } {
  const [head = ''] = /^ {2}\S.*?\S {2,}(?=\S)|^ +(?=\S)|^/.exec(line) ?? [];
  return { head, rest: line.slice(head.length) };
}

function filledBlock({ head, lines }: Block, width: number): string {
  const indent = ' '.repeat(head.length);
  const isCommand = head.trim() === '' && head.length > 0 && head.length <= deepestCommand;
  const room = width - head.length;
  if (isCommand || room < narrowest) return head + lines.join(`\n${indent}`);
  const help = Object.assign(new Help(), { minWidthToWrap: 1 });
  return head + help.boxWrap(lines.join(' '), room).replaceAll('\n', `\n${indent}`);
}
