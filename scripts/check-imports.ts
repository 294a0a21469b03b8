import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import { parseSync } from 'oxc-parser';
import { findFolderCircles, findImportCircles, findImportFaults, type SourceFile } from './import-rules.ts';

const root = join(import.meta.dirname, '..');
const folders = ['api', 'dashboard', 'gateway', 'kube', 'program', 'syncer', 'vc-manager', 'scripts', 'test'];

function readSource(path: string): SourceFile {
  const text = readFileSync(path, 'utf8');
  const { module } = parseSync(path, text);
  // With `verbatimModuleSyntax` an import of nothing but `{ type X }` stays, and loads the file.
  const isType = ({ start, end }: { start: number; end: number }): boolean =>
    /^(import|export) type\b/.test(text.slice(start, end));
  const found = [
    ...module.staticImports.map((each) => ({ name: each.moduleRequest.value, isType: isType(each) })),
    ...module.staticExports.flatMap((each) =>
      each.entries.map((entry) => ({ name: entry.moduleRequest?.value, isType: isType(each) })),
    ),
    ...module.dynamicImports.map((each) => ({ name: literal(path, each.moduleRequest), isType: false })),
  ];
  const names = [...new Set(found.map(({ name }) => name))].filter((name) => name !== undefined);
  const loaded = new Set(found.filter((each) => !each.isType).map(({ name }) => name));
  const relatives = names.filter((name) => name.startsWith('.'));
  const resolved = (name: string): string => fromRoot(join(dirname(path), name));
  return {
    path: fromRoot(path),
    imports: relatives.map(resolved),
    typeImports: relatives.filter((name) => !loaded.has(name)).map(resolved),
    packages: names.filter((name) => !name.startsWith('.')),
  };
}

/** What an `import()` names; undefined where that is computed. */
function literal(path: string, { start, end }: { start: number; end: number }): string | undefined {
  return /^(['"])(.*)\1$/s.exec(readFileSync(path, 'utf8').slice(start, end))?.[2];
}

function fromRoot(path: string): string {
  return relative(root, path).split(sep).join('/');
}

const files = folders.flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => readSource(join(entry.parentPath, entry.name))),
);

const faults = [
  ...findImportFaults(files),
  ...findImportCircles(files).map((circle) => `import circle:\n  ${circle.join('\n  ')}`),
  ...findFolderCircles(files).map((circle) => `import circle of folders:\n  ${circle.join('\n  ')}`),
];
for (const fault of faults) console.error(fault);
if (faults.length > 0) process.exit(1);
console.log('imports point one way');
