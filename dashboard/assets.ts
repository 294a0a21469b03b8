import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import * as module from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';

/** A file of the page, ready to be sent. */
export interface Asset {
  readonly type: string;
  readonly etag: string;
  readonly plain: Buffer;
  readonly gzip: Buffer;
  readonly br: Buffer;
}

export interface Assets {
  /** By path below `/assets/`; `index.html` is the page itself. */
  readonly files: ReadonlyMap<string, Asset>;
  /** For `script-src`: the import map, which has to stand in the page. */
  readonly scriptHashes: readonly string[];
}

const types: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  svg: 'image/svg+xml',
};

/** What the page imports by name, served as its package publishes it. */
const packages: Readonly<Record<string, string>> = {
  preact: 'preact.js',
  'preact/hooks': 'preact-hooks.js',
  htm: 'htm.js',
};

/**
 * Reads the page. In a checkout its scripts are TypeScript, of which types are cut out here; the published package has them
 * compiled beside this file. `directory`: where its HTML and CSS are.
 */
export async function loadAssets(directory: string): Promise<Assets> {
  const files = new Map<string, Asset>();
  const put = async (name: string, type: string, text: string): Promise<void> => {
    files.set(name, await asset(types[type] ?? 'text/plain', text));
  };
  const scripts = join(import.meta.dirname, 'page');
  for (const name of await readdir(scripts)) {
    if (!/\.(ts|js)$/.test(name) || /\.(test|d)\.ts$/.test(name)) continue;
    const text = await readFile(join(scripts, name), 'utf8');
    if (name.endsWith('.js')) await put(name, 'js', text.replace(/\n\/\/# sourceMappingURL=.*\s*$/, '\n'));
    else await put(name.replace(/\.ts$/, '.js'), 'js', withoutTypes(text));
  }
  for (const [name, file] of Object.entries(packages)) {
    const text = await readFile(browserFile(name), 'utf8');
    await put(file, 'js', text.replace(/\n?\/\/# sourceMappingURL=.*\s*$/, '\n'));
  }
  await put('style.css', 'css', await readFile(join(directory, 'style.css'), 'utf8'));
  await put('icon.svg', 'svg', await readFile(join(directory, 'icon.svg'), 'utf8'));
  const imports = Object.fromEntries(
    Object.entries(packages).map(([name, file]) => [name, `/assets/${file}`]),
  );
  const map = JSON.stringify({ imports });
  const html = await readFile(join(directory, 'index.html'), 'utf8');
  await put(
    'index.html',
    'html',
    html.replace('<!-- import map -->', `<script type="importmap">${map}</script>`),
  );
  return { files, scriptHashes: [`'sha256-${createHash('sha256').update(map).digest('base64')}'`] };
}

/** Imports in a checkout name `.ts` files, which browsers know as `.js`. */
function withoutTypes(text: string): string {
  return quietly(() => module.stripTypeScriptTypes(text))
    .replaceAll(/(\bfrom '\.[^']*)\.ts'/g, "$1.js'")
    .split('\n')
    .map((each) => each.trimEnd())
    .filter((each) => each !== '')
    .join('\n');
}

/** Node strips the types of this file too, and warns only of the call by name. */
function quietly<T>(work: () => T): T {
  const { emitWarning } = process;
  process.emitWarning = () => undefined;
  try {
    return work();
  } finally {
    process.emitWarning = emitWarning;
  }
}

function browserFile(name: string): string {
  if (name === 'htm') return join(packageDirectory('htm'), 'dist', 'htm.module.js');
  return fileURLToPath(import.meta.resolve(name));
}

function packageDirectory(name: string): string {
  for (let folder = dirname(fileURLToPath(import.meta.resolve(name))); ; folder = dirname(folder)) {
    if (existsSync(join(folder, 'package.json')) || folder === dirname(folder)) return folder;
  }
}

const compressed = { gzip: promisify(gzip), br: promisify(brotliCompress) };

async function asset(type: string, text: string): Promise<Asset> {
  const plain = Buffer.from(text);
  return {
    type,
    etag: `"${createHash('sha256').update(plain).digest('base64url').slice(0, 22)}"`,
    plain,
    gzip: await compressed.gzip(plain, { level: 9 }),
    br: await compressed.br(plain, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }),
  };
}
