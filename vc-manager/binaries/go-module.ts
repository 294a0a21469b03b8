import { type BinaryName, familyOf } from './binary.ts';
import { parseVersion } from './version.ts';

/** What to build, and how, to get one binary. */
export interface BuildRecipe {
  /** Module and version as Go writes them. */
  module: string;
  moduleVersion: string;
  package: string;
  ldflags: string;
  /** The program is the package's tests. */
  isTest?: boolean;
  /** The program's own main.go, which imports from the module, instead of one of its packages. */
  source?: string;
}

export function buildRecipe(name: BinaryName, version: string): BuildRecipe {
  const moduleVersion = `v${version}`;
  switch (familyOf(name)) {
    case 'kubernetes':
      return {
        module: 'k8s.io/kubernetes',
        moduleVersion,
        package: `k8s.io/kubernetes/cmd/${name}`,
        ldflags: `-s -w ${kubernetesStamps(version)}`,
      };
    case 'etcd':
      return {
        module: 'go.etcd.io/etcd/server/v3',
        moduleVersion,
        package: 'go.etcd.io/etcd/server/v3',
        ldflags: '-s -w',
      };
    case 'kwok':
      return {
        module: 'sigs.k8s.io/kwok',
        moduleVersion,
        package: 'sigs.k8s.io/kwok/cmd/kwok',
        ldflags: '-s -w',
      };
  }
}

/** Without these a build calls itself v0.0.0, and clients believe it. Modules carry no commit, so none is claimed. */
export function kubernetesStamps(version: string): string {
  const { major, minor } = parseVersion(version) ?? { major: 0, minor: 0 };
  const values = {
    gitVersion: `v${version}`,
    gitMajor: String(major),
    gitMinor: String(minor),
    gitCommit: '',
    gitTreeState: 'archive',
  };
  return ['k8s.io/component-base/version', 'k8s.io/client-go/pkg/version']
    .flatMap((path) => Object.entries(values).map(([key, value]) => `-X ${path}.${key}=${value}`))
    .join(' ');
}

/** What of a version's own go.mod does not reach a module that merely requires it. */
export interface ModuleFacts {
  goVersion: string | undefined;
  /** `default=go1.26`: settings that the main module alone decides. */
  godebug: string[];
  /** Modules that are replaced by directories of the repository, which the published module does not have. */
  staged: string[];
}

export function readModuleFile(text: string): ModuleFacts {
  const facts: ModuleFacts = { goVersion: undefined, godebug: [], staged: [] };
  let block = '';
  for (const line of text.split('\n').map((raw) => raw.replace(/\/\/.*/, '').trim())) {
    if (line === ')') block = '';
    else if (line.endsWith('(')) block = line.slice(0, -1).trim();
    else if (line !== '') {
      const [first = '', ...rest] = block === '' ? line.split(/\s+/) : [block, ...line.split(/\s+/)];
      if (first === 'go') facts.goVersion = rest[0];
      if (first === 'godebug' && rest[0] !== undefined) facts.godebug.push(rest[0]);
      if (first === 'replace' && rest[0] !== undefined && rest.at(-1)?.startsWith('./staging/')) {
        facts.staged.push(rest[0]);
      }
    }
  }
  return facts;
}

/**
 * The go.mod of a throw-away module that builds the recipe's package. Kubernetes cannot be installed by address
 * because its go.mod points into its own repository; each staging module is published under the same patch
 * version with major version 0, and named here instead.
 */
export function throwAwayModule(recipe: BuildRecipe, facts: ModuleFacts): string {
  const staged = recipe.moduleVersion.replace(/^v1\./, 'v0.');
  return [
    'module skerry.local/build',
    `go ${facts.goVersion ?? '1.24'}`,
    ...facts.godebug.map((setting) => `godebug ${setting}`),
    `require ${recipe.module} ${recipe.moduleVersion}`,
    ...facts.staged.map((module) => `replace ${module} => ${module} ${staged}`),
    '',
  ].join('\n');
}
