import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { execaSync } from 'execa';
import { parseSync, type Span } from 'oxc-parser';
import { analyse } from 'scslre';
import { describe, expect, it } from 'vitest';

const root = join(import.meta.dirname, '..');

interface Found {
  readonly file: string;
  /** As it stands in the code. */
  readonly text: string;
  /** Undefined where it is put together while the program runs. */
  readonly expression?: RegExp;
}

interface Node extends Span {
  type: string;
  regex?: { pattern: string; flags: string };
  callee?: { name?: string };
  [field: string]: unknown;
}

/** Every regular expression of a file. */
function expressionsOf(file: string, source: string): Found[] {
  const found: Found[] = [];
  const visit = (value: unknown): void => {
    if (Array.isArray(value)) for (const each of value) visit(each);
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return;
    const node = value as Node;
    const text = (): string => source.slice(node.start, node.end);
    if (node.regex !== undefined)
      found.push({ file, text: text(), expression: new RegExp(node.regex.pattern, node.regex.flags) });
    else if (['NewExpression', 'CallExpression'].includes(node.type) && node.callee?.name === 'RegExp')
      found.push({ file, text: text() });
    for (const field of Object.values(node)) visit(field);
  };
  visit(parseSync(file, source).program);
  return found;
}

function ofProduct(): Found[] {
  const patterns = ['api', 'dashboard', 'gateway', 'kube', 'program', 'syncer', 'vc-manager'].map(
    (folder) => `${folder}/*.ts`,
  );
  const files = execaSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', ...patterns], {
    cwd: root,
  })
    .stdout.split('\n')
    .filter((file) => file !== '' && !/\.test\.ts$|(^|\/)testing[/.]/.test(file));
  return files.flatMap((file) => {
    try {
      return expressionsOf(file, readFileSync(join(root, file), 'utf8'));
    } catch (error) {
      // Listed, and removed in the working tree.
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
      throw error;
    }
  });
}

/** Whether matching can take longer than in proportion to the length of the text. */
function isSuperLinear({ expression }: Found): boolean {
  return expression === undefined || analyse(expression).reports.length > 0;
}

/** What may take more than linear time, or cannot be judged here, and why it does no harm: file, beginning, reason. */
const harmless: readonly (readonly [string, string, string])[] = [
  [
    'api/policy.ts',
    'new RegExp(',
    "of schemas, for text of bounded length in the operator's and owners' objects",
  ],
  ['api/virtual-cluster.ts', 'new RegExp(', 'of a schema, for at most 253 characters'],
  ['dashboard/assets.ts', '/\\n', 'for the source maps of libraries in the package'],
  [
    'dashboard/dashboard.ts',
    'new RegExp(',
    'anchored, of names of bounded length, for a line of at most 16 KB',
  ],
  ['dashboard/page/format.ts', 'new RegExp(', 'of names of bounded length, in the browser'],
  ['dashboard/syncers.ts', '/([a-zA-Z_]', "for lines of syncers' own metrics"],
  ['kube/connection.ts', '/\\/+$/', 'for the address of a server in a kubeconfig'],
  [
    'syncer/kubelet/metrics-api.ts',
    'new RegExp(',
    'anchored at both ends, for selectors of at most 8,192 characters',
  ],
  ['syncer/kubelet/pod-streams.ts', '/\\/+$/', 'for the address of the super cluster'],
  ['syncer/kubelet/super-calls.ts', '/\\/+$/', 'for the address of the super cluster'],
  [
    'syncer/kubelet/usage-sources.ts',
    '/([0-9.]+)(h|ms',
    'for what the metrics API of the super cluster says',
  ],
  ['syncer/mapping/names.ts', '/-+$/', 'for at most 63 characters'],
  ['syncer/mapping/network-isolation.ts', '/\\d+(\\.\\d+){3}(?=\\/)/', 'for at most 64 characters'],
  ['syncer/sharding/own-lease.ts', '/^-+|-+$/g', 'for the name of the machine'],
  ['vc-manager/binaries/binary.ts', '/(\\d+)\\.(\\d+)', 'for what "go version" prints'],
  ['vc-manager/binaries/release.ts', '/\\/+$/', 'for the address of a mirror'],
  ['vc-manager/cli/arguments.ts', '/(\\d+(?:\\.\\d+)?)(ms', 'for an argument of the command line'],
  ['vc-manager/cli/up/components.ts', '/^-+|-+$/g', 'for the name of the machine'],
  [
    'vc-manager/drivers/compose/containers.ts',
    '/^(\\d{4}-',
    'for lines that the Docker engine begins with a time',
  ],
  ['vc-manager/drivers/images.ts', '/\\/+$/', 'for the address of a registry'],
];

const isListed = ({ file, text }: Found): boolean =>
  harmless.some(([where, beginning]) => file === where && text.startsWith(beginning));

describe('regular expressions', () => {
  const all = ofProduct();

  it('take linear time on whatever text, or never see that of a tenant without a limit', () => {
    expect(all.length).toBeGreaterThan(100);
    const faults = all.filter((each) => isSuperLinear(each) && !isListed(each));
    expect(faults.map(({ file, text }) => `${file}: ${text}`)).toEqual([]);
  });

  it('are listed as harmless only as long as they are there', () => {
    const left = harmless.filter(
      ([file, beginning]) => !all.some((each) => each.file === file && each.text.startsWith(beginning)),
    );
    expect(left).toEqual([]);
  });

  it('are found to be slow when they are', () => {
    const faults = (source: string): string[] =>
      expressionsOf('x.ts', source)
        .filter(isSuperLinear)
        .map(({ text }) => text);
    expect(faults('const slow = /(a+)+$/; const fast = /^a+$/;')).toEqual(['/(a+)+$/']);
    expect(faults('text.split(/,(?![^(]*\\))/)')).toHaveLength(1);
    expect(faults("const put = new RegExp('a' + b); const called = RegExp('a' + b)")).toHaveLength(2);
  });
});
