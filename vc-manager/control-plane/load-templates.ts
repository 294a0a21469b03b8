import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { parse } from 'yaml';
import type { ControlPlaneTemplate, ControlPlaneTemplateSpec } from '../../api/control-plane-template.ts';
import { invalidTemplate } from './errors.ts';
import { parseTemplate } from './template.ts';
import { overlaid, type Variant } from './template-variant.ts';

/** The templates that come with this package, or those in `directory`. Throws `InvalidTemplate`. */
export async function loadTemplates(directory = packagedTemplates()): Promise<ControlPlaneTemplate[]> {
  const names = (await readdir(directory)).filter((name) => name.endsWith('.yaml')).sort();
  return Promise.all(
    names.map(async (name) => {
      const template = parseTemplate(await withBase(await read(directory, name), directory, name), name);
      return { ...template, spec: await withAddons(template.spec, directory, name) };
    }),
  );
}

/** The object, with the spec of the file that it names as its base under its own. */
async function withBase(object: Variant, directory: string, name: string): Promise<unknown> {
  const { base, ...own } = object;
  if (base === undefined) return object;
  try {
    const { spec } = await read(directory, base);
    return { ...own, spec: overlaid(spec ?? {}, own.spec ?? {}) };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw invalidTemplate(name, [`base: ${why}`]);
  }
}

async function read(directory: string, name: string): Promise<Variant> {
  return parse(await readFile(join(directory, name), 'utf8')) as Variant;
}

/** With the text of its addons in place of the paths. */
async function withAddons(
  spec: ControlPlaneTemplateSpec,
  directory: string,
  source: string,
): Promise<ControlPlaneTemplateSpec> {
  if (spec.addons === undefined) return spec;
  const addons: Record<string, string> = {};
  for (const [name, path] of Object.entries(spec.addons)) {
    try {
      addons[name] = await readFile(join(directory, path), 'utf8');
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      throw invalidTemplate(source, [`spec.addons.${name}: ${why}`]);
    }
  }
  return { ...spec, addons };
}

// The sources lie two folders below the package's root, the built files three.
function packagedTemplates(): string {
  for (let folder = import.meta.dirname; ; folder = dirname(folder)) {
    const candidate = join(folder, 'tenant-apiserver-templates');
    if (existsSync(candidate) || folder === dirname(folder)) return candidate;
  }
}
