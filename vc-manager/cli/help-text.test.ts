import { expect, it } from 'vitest';
import { CommandWithHelp, fill } from './help-text.ts';
import { Captured } from './testing/captured.ts';

const text = `
Stops a thing, and what belongs to it, however long
that takes. It goes on
when asked.

Examples:
  vc stop a --all             all of it, also what nobody has asked for in a long time
                              and more
  vc stop a --a-very-long-option-that-is-not-broken --and another-one \\
    --and-its-end -o yaml
                              as YAML`;

it('breaks paragraphs and explanations at the width of the help, and no commands', () => {
  expect(fill(text, 60)).toBe(`
Stops a thing, and what belongs to it, however long that
takes. It goes on when asked.

Examples:
  vc stop a --all             all of it, also what nobody
                              has asked for in a long time
                              and more
  vc stop a --a-very-long-option-that-is-not-broken --and another-one \\
    --and-its-end -o yaml
                              as YAML`);
});

it('leaves explanations as they are where too little room is left for them', () => {
  const [, examples] = text.split('Examples:');
  expect(fill(text, 50)).toMatch(/^\nStops a thing, and what belongs to it, however\n/);
  expect(fill(text, 50).split('Examples:')[1]).toBe(examples);
});

it('is done with what a command says after its options', () => {
  const out = new Captured();
  const program = new CommandWithHelp('vc').configureHelp({ helpWidth: 60 });
  program.configureOutput({ writeOut: (chunk) => out.write(chunk) });
  program.command('stop').copyInheritedSettings(program).addHelpText('after', text).outputHelp();
  expect(out.text).toContain('\nStops a thing, and what belongs to it, however long that\ntakes. It');
});
