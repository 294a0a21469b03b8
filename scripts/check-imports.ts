import { readdirSync, readFileSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { findFolderCircles, findImportCircles, findImportFaults, sourceFile } from './import-rules.ts';

const root = join(import.meta.dirname, '..');
const folders = ['api', 'dashboard', 'gateway', 'kube', 'program', 'syncer', 'vc-manager', 'scripts', 'test'];

function fromRoot(path: string): string {
  return relative(root, path).split(sep).join('/');
}

const files = folders.flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => join(entry.parentPath, entry.name))
    .map((path) => sourceFile(fromRoot(path), readFileSync(path, 'utf8'))),
);

const faults = [
  ...findImportFaults(files),
  ...findImportCircles(files).map((circle) => `import circle:\n  ${circle.join('\n  ')}`),
  ...findFolderCircles(files).map((circle) => `import circle of folders:\n  ${circle.join('\n  ')}`),
];
for (const fault of faults) console.error(fault);
if (faults.length > 0) process.exit(1);
console.log('imports point one way');
