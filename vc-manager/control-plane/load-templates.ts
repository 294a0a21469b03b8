import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { parse } from 'yaml';
import { type ControlPlaneTemplate, parseTemplate } from './template.ts';

/** The templates that come with this package, or those in `directory`. Throws `InvalidTemplate`. */
export async function loadTemplates(directory = packagedTemplates()): Promise<ControlPlaneTemplate[]> {
  const names = (await readdir(directory)).filter((name) => name.endsWith('.yaml')).sort();
  return Promise.all(
    names.map(async (name) => parseTemplate(parse(await readFile(join(directory, name), 'utf8')), name)),
  );
}

// The sources lie two folders below the package's root, the built files three.
function packagedTemplates(): string {
  for (let folder = import.meta.dirname; ; folder = dirname(folder)) {
    const candidate = join(folder, 'tenant-apiserver-templates');
    if (existsSync(candidate) || folder === dirname(folder)) return candidate;
  }
}
