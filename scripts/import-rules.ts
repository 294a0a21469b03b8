import { posix } from 'node:path';
import { parseSync } from 'oxc-parser';

/** One file and what it imports, types included: files of this project as paths from the root, packages by name. */
export interface SourceFile {
  readonly path: string;
  readonly imports: readonly string[];
  readonly packages?: readonly string[];
  /** Those of the imports of which nothing is left at run time. */
  readonly typeImports?: readonly string[];
}

/** What a file imports, given its path from the root. Throws where it cannot be parsed. */
export function sourceFile(path: string, text: string): SourceFile {
  const { module, errors } = parseSync(path, text);
  if (errors[0] !== undefined) throw new Error(`${path}: ${errors[0].message}`);
  // With `verbatimModuleSyntax` an import of nothing but `{ type X }` stays, and loads the file.
  const isType = ({ start, end }: { start: number; end: number }): boolean =>
    /^(import|export) type\b/.test(text.slice(start, end));
  // Undefined where an `import()` computes what it names.
  const literal = ({ start, end }: { start: number; end: number }): string | undefined =>
    /^(['"])(.*)\1$/s.exec(text.slice(start, end))?.[2];
  const found = [
    ...module.staticImports.map((each) => ({ name: each.moduleRequest.value, isType: isType(each) })),
    ...module.staticExports.flatMap((each) =>
      each.entries.map((entry) => ({ name: entry.moduleRequest?.value, isType: isType(each) })),
    ),
    ...module.dynamicImports.map((each) => ({ name: literal(each.moduleRequest), isType: false })),
  ];
  const names = [...new Set(found.map(({ name }) => name))].filter((name) => name !== undefined);
  const loaded = new Set(found.filter((each) => !each.isType).map(({ name }) => name));
  const relatives = names.filter((name) => name.startsWith('.'));
  const resolved = (name: string): string => posix.join(posix.dirname(path), name);
  return {
    path,
    imports: relatives.map(resolved),
    typeImports: relatives.filter((name) => !loaded.has(name)).map(resolved),
    packages: names.filter((name) => !name.startsWith('.')),
  };
}

/** Which top-level folders may import which others. */
const allowed: Readonly<Record<string, readonly string[]>> = {
  api: ['api', 'kube'],
  kube: ['kube'],
  program: ['program', 'kube', 'api'],
  dashboard: ['dashboard', 'program', 'kube', 'api'],
  gateway: ['gateway', 'program', 'kube', 'api'],
  syncer: ['syncer', 'program', 'kube', 'api'],
  'vc-manager': ['vc-manager', 'dashboard', 'program', 'kube', 'api'],
  scripts: ['scripts', 'vc-manager', 'kube', 'api'],
  test: ['test', 'scripts', 'vc-manager', 'dashboard', 'kube', 'api'],
};

/** Folders of which another may import types only. */
const typesOnly: Readonly<Record<string, string>> = { api: 'kube' };

/** What runs in the browser is apart from what serves it, but for the types of what is sent. */
const pageFolder = 'dashboard/page/';
const sentTypes = 'dashboard/types.ts';

function isTypeOfPage(target: string): boolean {
  return target === sentTypes || target.startsWith('api/');
}

/** Folders of the syncer that import no other of its files. */
const pureFolders = ['syncer/mapping/', 'syncer/workqueue/'];
const context = 'syncer/context.ts';

function leavesPureFolder(path: string, target: string): boolean {
  const folder = pureFolders.find((each) => path.startsWith(each));
  return (
    folder !== undefined && target.startsWith('syncer/') && !target.startsWith(folder) && target !== context
  );
}

/** The only packages that the files of a folder may import, where that is limited. */
const allowedPackages: Readonly<Record<string, readonly string[]>> = { api: ['zod'] };

/** What the kinds share. Any other file or folder there is a kind, and no kind imports another. */
const kindsFolder = 'syncer/kinds/';
const sharedByKinds: ReadonlySet<string> = new Set([
  'contract.ts',
  'validation.ts',
  'known-fields.ts',
  'late-references.ts',
  'patches.ts',
  'payload.ts',
  'conditions.ts',
  'published-kind.ts',
  'references.ts',
  'memoized.ts',
  'reserved-names.ts',
  'well-formed.ts',
]);
/** Lists all kinds. */
const kindsRegistry = 'registry.ts';

/** Whether a kind imports another; of one in a folder, the shapes in `types.ts`, and what reads them, may be imported. */
function isKindToKind(path: string, target: string): boolean {
  if (!path.startsWith(kindsFolder) || !target.startsWith(kindsFolder)) return false;
  const [from = '', to = '', inside] = [
    ...[path, target].map((each) => each.split('/')[2]),
    target.split('/')[3],
  ];
  return from !== to && from !== kindsRegistry && !sharedByKinds.has(to) && inside !== 'types.ts';
}

/**
 * Imports that point the wrong way, past the `index.ts` of another folder, or from the product into test helpers.
 * A folder of the first two levels with an `index.ts` is entered only through it, any other is imported file by file.
 */
export function findImportFaults(files: readonly SourceFile[]): string[] {
  const faults: string[] = [];
  const paths = new Set(files.map(({ path }) => path));
  for (const { path, imports, packages = [], typeImports = [] } of files) {
    const top = topFolder(path);
    const isTest = isTestFile(path);
    for (const name of packages) {
      if (!isTest && allowedPackages[top]?.includes(name) === false) {
        faults.push(`${path}: ${top} may not import the package ${name}`);
      }
    }
    for (const target of imports) {
      const targetTop = topFolder(target);
      if (allowed[top]?.includes(targetTop) !== true) {
        faults.push(`${path}: ${top} may not import ${targetTop} (${target})`);
        continue;
      }
      if (isTest) continue;
      if (typesOnly[top] === targetTop && !typeImports.includes(target))
        faults.push(`${path}: ${top} may import only types of ${targetTop} (${target})`);
      if (/(^|\/)testing[/.]/.test(target)) faults.push(`${path}: only tests may import ${target}`);
      const isOfPage = path.startsWith(pageFolder);
      const isSentType = isOfPage && typeImports.includes(target) && isTypeOfPage(target);
      if (isOfPage !== target.startsWith(pageFolder) && !isSentType)
        faults.push(`${path}: the page and its server import nothing of each other (${target})`);
      if (leavesPureFolder(path, target))
        faults.push(`${path}: imports no other folder of the syncer (${target})`);
      if (isKindToKind(path, target))
        faults.push(`${path}: a kind may not import another (${target}); declare references instead`);
      const index = indexToPass(path, target, paths);
      if (index !== undefined) faults.push(`${path}: imports ${target} past ${index}`);
    }
  }
  return faults;
}

/** The `index.ts` of the outermost folder that holds the target and not the importer, if it is not the target itself. */
function indexToPass(importer: string, target: string, paths: ReadonlySet<string>): string | undefined {
  const folders = target.split('/').slice(0, -1);
  for (let depth = 1; depth <= Math.min(2, folders.length); depth++) {
    const folder = `${folders.slice(0, depth).join('/')}/`;
    if (importer.startsWith(folder) || !paths.has(`${folder}index.ts`)) continue;
    return target === `${folder}index.ts` ? undefined : `${folder}index.ts`;
  }
  return undefined;
}

/**
 * Import circles: for every group of files that import each other in a circle, one shortest circle, as the paths in
 * order with the first repeated at the end.
 */
export function findImportCircles(files: readonly SourceFile[]): string[][] {
  const importsOf = new Map(files.map(({ path, imports }) => [path, imports] as const));
  return groups(importsOf)
    .map((group) => shortestCircle(new Set(group), importsOf))
    .filter((circle) => circle !== undefined)
    .sort((a, b) => ((a[0] ?? '') < (b[0] ?? '') ? -1 : 1));
}

/**
 * Circles between folders, as those between files. What tests import does not
 * count, nor what a folder and one inside it import of each other.
 */
export function findFolderCircles(files: readonly SourceFile[]): string[][] {
  const folders = new Map<string, Set<string>>();
  for (const { path, imports } of files) {
    if (isTestFile(path)) continue;
    const from = folderOf(path);
    const targets = folders.get(from) ?? new Set<string>();
    folders.set(from, targets);
    for (const to of imports.map(folderOf)) {
      const isNested = `${from}/`.startsWith(`${to}/`) || `${to}/`.startsWith(`${from}/`);
      if (!isNested) targets.add(to);
    }
  }
  return findImportCircles([...folders].map(([path, targets]) => ({ path, imports: [...targets] })));
}

function folderOf(path: string): string {
  return path.split('/').slice(0, -1).join('/');
}

/** Tarjan's strongly connected components. */
function groups(importsOf: ReadonlyMap<string, readonly string[]>): string[][] {
  const found: string[][] = [];
  const order = new Map<string, number>();
  const stack: string[] = [];
  const onStack = new Set<string>();
  const visit = (path: string): number => {
    const own = order.size;
    let low = own;
    order.set(path, own);
    stack.push(path);
    onStack.add(path);
    for (const target of importsOf.get(path) ?? []) {
      if (!importsOf.has(target)) continue;
      if (!order.has(target)) low = Math.min(low, visit(target));
      else if (onStack.has(target)) low = Math.min(low, order.get(target) ?? low);
    }
    if (low === own) {
      const group = stack.splice(stack.indexOf(path));
      for (const member of group) onStack.delete(member);
      found.push(group);
    }
    return low;
  };
  for (const path of importsOf.keys()) if (!order.has(path)) visit(path);
  return found;
}

function shortestCircle(
  group: ReadonlySet<string>,
  importsOf: ReadonlyMap<string, readonly string[]>,
): string[] | undefined {
  let shortest: string[] | undefined;
  for (const start of [...group].sort()) {
    const cameFrom = new Map<string, string>();
    const queue = [start];
    for (let at = queue.shift(); at !== undefined && !cameFrom.has(start); at = queue.shift()) {
      for (const target of importsOf.get(at) ?? []) {
        if (!group.has(target) || cameFrom.has(target)) continue;
        cameFrom.set(target, at);
        queue.push(target);
      }
    }
    if (!cameFrom.has(start)) continue;
    const circle = [start];
    for (let at = cameFrom.get(start); at !== undefined && at !== start; at = cameFrom.get(at))
      circle.push(at);
    circle.push(start);
    circle.reverse();
    if (shortest === undefined || circle.length < shortest.length) shortest = circle;
  }
  return shortest;
}

function topFolder(path: string): string {
  return path.split('/', 1)[0] ?? path;
}

function isTestFile(path: string): boolean {
  return path.endsWith('.test.ts') || path.startsWith('test/') || /(^|\/)testing[/.]/.test(path);
}
