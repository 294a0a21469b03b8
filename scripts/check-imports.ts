import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import { findImportFaults, type SourceFile } from './import-rules.ts';

const root = join(import.meta.dirname, '..');
const rooms = ['api', 'kube', 'syncer', 'vc-manager', 'scripts', 'test'];

function* sources(folder: string): Generator<SourceFile> {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) yield* sources(path);
    else if (entry.name.endsWith('.ts')) {
      const text = readFileSync(path, 'utf8');
      const imports = [...text.matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+)'/g)].map((match) =>
        relative(root, join(dirname(path), match[1] as string))
          .split(sep)
          .join('/'),
      );
      yield { path: relative(root, path).split(sep).join('/'), imports };
    }
  }
}

const faults = rooms.flatMap((room) => findImportFaults([...sources(join(root, room))]));
for (const fault of faults) console.error(fault);
if (faults.length > 0) process.exit(1);
console.log('imports point one way');
