/**
 * Writes the reference of commands and objects from their sources: `node scripts/reference.ts`. A test fails while
 * the pages are stale.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Command } from 'commander';
import { execa } from 'execa';
import { crdManifests } from '../api/crds.ts';
import { systemClock } from '../kube/index.ts';
import type { Cli } from '../vc-manager/cli/context.ts';
import { buildProgram } from '../vc-manager/cli/program.ts';
import { registry } from '../vc-manager/cli/registry.ts';

const root = join(import.meta.dirname, '..');
const generated = '<!-- Written by scripts/reference.ts; change the sources instead. -->';

/** The text of the pages, by their path. */
export async function referencePages(): Promise<ReadonlyMap<string, string>> {
  return new Map([
    ['docs/reference-cli.md', await commandsPage()],
    ['docs/reference-objects.md', objectsPage()],
  ]);
}

async function commandsPage(): Promise<string> {
  const entries = registry.filter(({ hidden }) => hidden !== true);
  const sections: string[] = [];
  for (const { name, alias } of entries) {
    const title = alias === undefined ? name : `${name} (${alias})`;
    sections.push(`## ${title}\n\n${block(await helpOf(name))}`);
  }
  for (const program of ['vc-syncer', 'vc-gateway'])
    sections.push(`## ${program}\n\n${block(await helpOfProgram(program))}`);
  return page([
    '# Reference: commands',
    'What `vc-manager COMMAND --help` says, and the flags of the other two programs. Exit codes and what commands have in common: [cli.md](cli.md).',
    ...sections,
  ]);
}

async function helpOf(name: string): Promise<string> {
  let text = '';
  const write = (chunk: string | Uint8Array): boolean => {
    text += String(chunk);
    return true;
  };
  const output = { write, columns: 100 } as unknown as Cli['stdout'];
  const program = await buildProgram([name], {
    env: {},
    stdout: output,
    stderr: output,
    clock: systemClock,
    signal: new AbortController().signal,
    onSignal: () => undefined,
    outlivesReader: () => undefined,
    setExitCode: () => undefined,
  });
  program.commands.find((each: Command) => each.name() === name)?.outputHelp();
  return text;
}

async function helpOfProgram(name: string): Promise<string> {
  const { stdout } = await execa(process.execPath, [join(root, 'bin', `${name}.js`), '--help'], {
    env: { COLUMNS: '100' },
  });
  // Half of this machine's heap.
  return stdout.replace(/(--max-old-space-size\)\s+\(default:)\s+\d+\)/, '$1 that)');
}

interface Schema {
  readonly type?: string;
  readonly description?: string;
  readonly default?: unknown;
  readonly enum?: readonly unknown[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly maxLength?: number;
  readonly maxItems?: number;
  readonly pattern?: string;
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly additionalProperties?: Schema;
}

interface Definition {
  readonly spec: {
    readonly scope: string;
    readonly names: {
      readonly kind: string;
      readonly plural: string;
      readonly shortNames?: readonly string[];
    };
    readonly versions: readonly {
      readonly name: string;
      readonly schema: { readonly openAPIV3Schema: Schema };
    }[];
  };
}

function objectsPage(): string {
  const sections = crdManifests().map((manifest) => {
    const { scope, names, versions } = (manifest as unknown as Definition).spec;
    const [version] = versions;
    const { properties = {} } = version?.schema.openAPIV3Schema ?? {};
    const short = names.shortNames?.length ? `, short: ${names.shortNames.join(', ')}` : '';
    const about = `\`skerry.dev/${version?.name}\`, ${scope === 'Namespaced' ? 'in a namespace' : 'in the cluster'}, \`${names.plural}\`${short}.`;
    const parts = ['spec', 'status'].flatMap((name) => {
      const schema = properties[name];
      return schema === undefined ? [] : [`### ${names.kind}: ${name}`, fieldsOf(schema, name).join('\n')];
    });
    return [`## ${names.kind}`, about, ...parts].join('\n\n');
  });
  return page([
    '# Reference: objects',
    "Fields of Skerry's kinds, as their CustomResourceDefinitions have them. What they mean together: [policy.md](policy.md), [sleep.md](sleep.md), [snapshots.md](snapshots.md), [operating.md](operating.md#conditions-and-what-to-do).",
    ...sections,
  ]);
}

/** A line for each field, with those inside of it after it. */
function fieldsOf(schema: Schema, path: string): string[] {
  const { properties = {}, required = [], items, additionalProperties } = schema;
  const inside = Object.entries(properties).flatMap(([name, field]) => {
    const at = `${path}.${name}`;
    return [lineOf(at, field, required.includes(name)), ...fieldsOf(field, at)];
  });
  return [
    ...inside,
    ...(items === undefined ? [] : fieldsOf(items, `${path}[]`)),
    ...(additionalProperties === undefined ? [] : fieldsOf(additionalProperties, `${path}.KEY`)),
  ];
}

function lineOf(path: string, field: Schema, isRequired: boolean): string {
  const facts = [
    typeOf(field),
    ...(isRequired ? ['required'] : []),
    ...(field.default === undefined ? [] : [`default \`${JSON.stringify(field.default)}\``]),
    ...(field.enum === undefined ? [] : [`one of ${field.enum.map((value) => `\`${value}\``).join(', ')}`]),
    ...(field.minimum === undefined ? [] : [`from ${field.minimum}`]),
    ...(field.maximum === undefined ? [] : [`to ${field.maximum}`]),
    ...(field.maxItems === undefined ? [] : [`at most ${field.maxItems}`]),
  ];
  const about = field.description === undefined ? '' : ` ${field.description.replaceAll(/[*_<>]/g, '\\$&')}`;
  return `- \`${path}\` (${facts.join(', ')}).${about}`;
}

function typeOf({ type = 'any', items, additionalProperties }: Schema): string {
  if (items !== undefined) return `list of ${typeOf(items)}s`;
  if (additionalProperties !== undefined) return `map of ${typeOf(additionalProperties)}s`;
  return type;
}

function block(text: string): string {
  return `\`\`\`\n${text.trim().replaceAll(/[ \t]+$/gm, '')}\n\`\`\``;
}

function page([title = '', ...rest]: readonly string[]): string {
  return `${[title, generated, ...rest].join('\n\n')}\n`;
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  for (const [path, text] of await referencePages()) await writeFile(join(root, path), text);
