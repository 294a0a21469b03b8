import { type CallExpression, parseSync, Visitor } from 'oxc-parser';

/** A call as `it.runIf(...)('title', ...)`: who is called, with what it is called on, from the left. */
interface TestCall {
  readonly words: readonly string[];
  /** With `${}` where something is filled in. */
  readonly title: string;
}

const testWords: ReadonlySet<string> = new Set(['it', 'itInTestAll', 'test']);
/** What does not run, or passes when it fails. */
const idleWords: ReadonlySet<string> = new Set(['skip', 'todo', 'fails']);

/** A test that runs, or a group that has one. */
export interface RunningTest {
  readonly title: string;
  /** The call as it is written, without comments. */
  readonly text: string;
}

/**
 * The tests of a file that run, and the groups that have one, each group once for each of its tests. Those that depend
 * on the machine (`runIf`, `skipIf`) or run in the broad run only (`itInTestAll`) count as running.
 */
export function runningTests(source: string): RunningTest[] {
  const { program, comments, errors } = parseSync('source.ts', source);
  if (errors.length > 0) throw new SyntaxError(errors[0]?.message ?? 'cannot be parsed');
  const groups: (TestCall & RunningTest & { readonly isIdle: boolean })[] = [];
  const tests: RunningTest[] = [];
  let code = source;
  for (const { start, end } of comments)
    code = code.slice(0, start) + ' '.repeat(end - start) + code.slice(end);
  const enter = (node: CallExpression): void => {
    const call = testCall(node);
    if (call === undefined) return;
    const isIdle = groups.at(-1)?.isIdle === true || isMarkedIdle(node, call);
    const found = { ...call, text: code.slice(node.start, node.end) };
    if (!testWords.has(call.words[0] ?? '')) groups.push({ ...found, isIdle });
    else if (!isIdle) for (const { title, text } of [...groups, found]) tests.push({ title, text });
  };
  const leave = (node: CallExpression): void => {
    const call = testCall(node);
    if (call?.words[0] === 'describe') groups.pop();
  };
  new Visitor({ CallExpression: enter, 'CallExpression:exit': leave }).visit(program);
  return tests;
}

function testCall({ callee, arguments: [first] }: CallExpression): TestCall | undefined {
  const words = wordsOf(callee);
  if (words[0] !== 'describe' && !testWords.has(words[0] ?? '')) return undefined;
  if (first?.type === 'Literal' && typeof first.value === 'string') return { words, title: first.value };
  if (first?.type !== 'TemplateLiteral') return undefined;
  return { words, title: first.quasis.map(({ value }) => value.cooked ?? '').join('${}') };
}

function wordsOf(callee: CallExpression['callee']): string[] {
  if (callee.type === 'Identifier') return [callee.name];
  if (callee.type === 'CallExpression') return wordsOf(callee.callee);
  if (callee.type === 'TaggedTemplateExpression') return wordsOf(callee.tag);
  if (callee.type !== 'MemberExpression' || callee.property.type !== 'Identifier') return [];
  return [...wordsOf(callee.object), callee.property.name];
}

function isMarkedIdle(node: CallExpression, { words }: TestCall): boolean {
  if (words.some((word) => idleWords.has(word))) return true;
  const options = node.arguments[1];
  return (
    options?.type === 'ObjectExpression' &&
    options.properties.some(
      (each) => each.type === 'Property' && each.key.type === 'Identifier' && idleWords.has(each.key.name),
    )
  );
}
