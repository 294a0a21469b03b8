import { readFile, writeFile } from 'node:fs/promises';
import { setPriority } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { execa } from 'execa';
import {
  type BinaryName,
  type BinaryRequest,
  familyOf,
  goSuffices,
  knownGoVersion,
  type Platform,
  parseVersion,
  type Report,
} from './binary.ts';
import { BinaryError } from './errors.ts';
import { reportedVersion } from './local-search.ts';

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

function buildRecipe(name: BinaryName, version: string): BuildRecipe {
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
interface ModuleFacts {
  goVersion: string | undefined;
  /** `default=go1.26`: settings that the main module alone decides. */
  godebug: string[];
  /** Modules that are replaced by directories of the repository, which the published module does not have. */
  staged: string[];
}

function readModuleFile(text: string): ModuleFacts {
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
function temporaryModule(recipe: BuildRecipe, facts: ModuleFacts): string {
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

interface GoBuildOptions extends GoBuildEnvironment {
  request: BinaryRequest;
}

/** Where and how programs are built. */
export interface GoBuildEnvironment {
  platform: Platform;
  /** Empty; the program and everything that leads to it are put here. */
  directory: string;
  /** Where Go keeps modules and compiled packages for a user who has no home directory. */
  home: string;
  env: Readonly<Record<string, string | undefined>>;
  /** Only modules that Go has in its own cache. */
  offline: boolean;
  report: Report;
  signal: AbortSignal;
  /** Packages that were compiled in this run, and are not compiled again. */
  compiled?: Set<string>;
}

const linesKept = 15;

/**
 * Builds a program from Go modules with the machine's own toolchain.
 * @returns path of the program, after checking the version that it reports
 * @throws BinaryError GoMissing, GoTooOld, BuildFailed
 */
export async function goBuild(options: GoBuildOptions): Promise<string> {
  const { request, env, signal } = options;
  const { name, version } = request;
  const program = await buildFromModule(
    name,
    buildRecipe(name, version),
    options,
    knownGoVersion(name, version),
  );
  signal.throwIfAborted();
  const reported = await reportedVersion(name, program, env).catch((error: Error) => {
    throw new BinaryError('BuildFailed', `the program that was built ${error.message}`);
  });
  if (reported !== version) {
    throw new BinaryError('BuildFailed', `the program that was built says that it is ${reported}`);
  }
  return program;
}

/**
 * Builds any program of a Go module, and leaves open whether it runs.
 * @param neededGo lowest Go version, where it is known before the module is asked
 * @returns path of the program: `name` in the workshop's directory
 * @throws BinaryError GoMissing, GoTooOld, BuildFailed
 */
export async function buildFromModule(
  name: string,
  recipe: BuildRecipe,
  workshop: GoBuildEnvironment,
  neededGo?: string,
): Promise<string> {
  const { directory, report } = workshop;
  const what = `${name} ${recipe.moduleVersion.replace(/^v/, '')}`;
  const go = new GoCommand(workshop);

  report('building', 'looking at the Go toolchain');
  const toolchain = (await go.run(['env', 'GOVERSION'])).trim();
  requireGo(toolchain, neededGo, what);
  await writeFile(join(directory, 'go.mod'), 'module skerry.local/build\n');
  report('building', `asking for ${recipe.module} ${recipe.moduleVersion}`);
  const facts = readModuleFile(await moduleFile(go, recipe));
  requireGo(toolchain, facts.goVersion, what);
  await writeFile(join(directory, 'go.mod'), temporaryModule(recipe, facts));

  const progress = new GoProgress(workshop.compiled ?? new Set());
  const onLine = (line: string) => {
    const { message, percent } = progress.next(line);
    report('building', message, percent);
  };
  report('building', 'resolving modules');
  await go.run(['get', `${recipe.module}@${recipe.moduleVersion}`], onLine);
  if (recipe.source !== undefined) await writeFile(join(directory, 'main.go'), recipe.source);
  const program = join(directory, name);
  const target = recipe.source === undefined ? recipe.package : '.';
  progress.expect((await go.run(['list', '-deps', target], onLine)).split('\n'));
  await go.run(
    [
      ...(recipe.isTest === true ? ['test', '-c'] : ['build']),
      '-v',
      '-trimpath',
      '-buildvcs=false',
      '-ldflags',
      recipe.ldflags,
      '-o',
      program,
      target,
    ],
    onLine,
  );
  return program;
}

/**
 * What the Go module proxy has instead of this version, in order and without `v`; undefined when it has it, or does not say.
 */
export async function otherVersions(
  { name, version }: BinaryRequest,
  workshop: GoBuildEnvironment,
): Promise<string[] | undefined> {
  const go = new GoCommand(workshop);
  const { module, moduleVersion } = buildRecipe(name, version);
  try {
    await writeFile(join(workshop.directory, 'go.mod'), 'module skerry.local/build\n');
    // Lists may be old: the version itself is asked for too.
    const list = (await go.run(['list', '-m', '-versions', module])).trim().split(/\s+/).slice(1);
    if (list.length === 0 || list.includes(moduleVersion)) return undefined;
    const isThere = await go.run(['list', '-m', `${module}@${moduleVersion}`]).then(
      () => true,
      () => false,
    );
    workshop.signal.throwIfAborted();
    return isThere ? undefined : list.map((each) => each.replace(/^v/, ''));
  } catch (error) {
    if (error instanceof BinaryError) return undefined;
    throw error;
  }
}

async function moduleFile(go: GoCommand, { module, moduleVersion }: BuildRecipe): Promise<string> {
  const answer = await go.run(['list', '-m', '-json', `${module}@${moduleVersion}`]);
  try {
    return await readFile((JSON.parse(answer) as { GoMod: string }).GoMod, 'utf8');
  } catch (error) {
    throw new BinaryError('BuildFailed', `go did not say where the go.mod of ${module} is: ${answer}`, {
      cause: error,
    });
  }
}

function requireGo(toolchain: string, needed: string | undefined, what: string): void {
  if (needed !== undefined && !goSuffices(toolchain, needed)) {
    throw new BinaryError('GoTooOld', `${what} needs Go ${needed} or newer, this machine has ${toolchain}`);
  }
}

/** Lets what is started meanwhile go before compilers, which inherit it. */
function giveWay(pid: number | undefined): void {
  try {
    if (pid !== undefined) setPriority(pid, 10);
  } catch {
    // It has ended already, or may not be nice here.
  }
}

class GoCommand {
  readonly #options: GoBuildEnvironment;
  readonly #env: Record<string, string | undefined>;

  constructor(options: GoBuildEnvironment) {
    const { env, home, offline, platform, directory } = options;
    this.#options = options;
    this.#env = {
      ...env,
      HOME: env['HOME'] || home,
      GO111MODULE: 'on',
      GOFLAGS: '-mod=mod',
      GOTOOLCHAIN: 'local',
      GOWORK: 'off',
      CGO_ENABLED: '0',
      GOOS: platform.os,
      GOARCH: platform.arch,
      PWD: directory,
      // What lies in Go's cache was checked when it was put there; the checksum server cannot be asked again.
      ...(offline ? { GOPROXY: 'off', GOSUMDB: 'off' } : {}),
    };
  }

  /** Standard output of a go command; its other output goes to `onLine`. Cancelling ends compilers and linkers with it. */
  async run(args: string[], onLine?: (line: string) => void): Promise<string> {
    const { directory, signal } = this.#options;
    signal.throwIfAborted();
    const child = execa('go', args, {
      cwd: directory,
      env: this.#env,
      extendEnv: false,
      stdin: 'ignore',
      reject: false,
      cancelSignal: signal,
      killDescendants: true,
      forceKillAfterDelay: 3_000,
    });
    giveWay(child.pid);
    const tail: string[] = [];
    const lines = createInterface({ input: child.stderr, crlfDelay: Number.POSITIVE_INFINITY });
    lines.on('line', (line) => {
      tail.push(line);
      if (tail.length > linesKept) tail.shift();
      onLine?.(line);
    });
    const result = await child;
    lines.close();
    if (signal.aborted) throw signal.reason;
    if (!result.failed) return result.stdout;
    if (result.code === 'ENOENT') throw new BinaryError('GoMissing', 'there is no go command on PATH');
    const ending = tail.length === 0 ? result.shortMessage : tail.join('\n');
    throw new BinaryError('BuildFailed', `go ${args[0]} failed:\n${ending}`);
  }
}

/** Of a build in per cent: fetching modules takes the first part, linking the last. */
const fetched = 5;
const compiledAll = 95;

/** One line of progress from what go prints. */
class GoProgress {
  readonly #compiled: Set<string>;
  #modules = 0;
  #expected: ReadonlySet<string> = new Set();
  #done = 0;

  constructor(compiled: Set<string>) {
    this.#compiled = compiled;
  }

  /** All packages of the program. Those that Go has compiled in an earlier run are not compiled, which is not known. */
  expect(packages: readonly string[]): void {
    this.#expected = new Set(packages.filter((name) => name !== '' && !this.#compiled.has(name)));
  }

  next(line: string): { message: string; percent?: number } {
    if (/^go: downloading /.test(line)) {
      this.#modules += 1;
      return { message: `fetching modules (${this.#modules})`, percent: fetched / 2 };
    }
    if (line.startsWith('go: ')) return { message: 'resolving modules' };
    this.#compiled.add(line);
    if (!this.#expected.has(line)) return { message: 'compiling' };
    this.#done += 1;
    const percent = fetched + ((compiledAll - fetched) * this.#done) / this.#expected.size;
    return { message: `compiling (${this.#done} of ${this.#expected.size} packages)`, percent };
  }
}
