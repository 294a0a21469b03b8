import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import { parseSync } from 'oxc-parser';
import { findFolderCircles, findImportCircles, findImportFaults, type SourceFile } from './import-rules.ts';

const root = join(import.meta.dirname, '..');
const folders = ['api', 'dashboard', 'gateway', 'kube', 'program', 'syncer', 'vc-manager', 'scripts', 'test'];

function readSource(path: string): SourceFile {
  const { module } = parseSync(path, readFileSync(path, 'utf8'));
  const specifiers = [
    ...module.staticImports.map(({ moduleRequest }) => moduleRequest.value),
    ...module.staticExports.flatMap(({ entries }) => entries.map((entry) => entry.moduleRequest?.value)),
    ...module.dynamicImports.map(({ moduleRequest }) => literal(path, moduleRequest)),
  ].filter((specifier) => specifier !== undefined);
  const relatives = new Set(specifiers.filter((specifier) => specifier.startsWith('.')));
  return {
    path: fromRoot(path),
    imports: [...relatives].map((specifier) => fromRoot(join(dirname(path), specifier))),
    packages: [...new Set(specifiers.filter((specifier) => !specifier.startsWith('.')))],
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
