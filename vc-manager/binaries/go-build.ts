import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { execa } from 'execa';
import type { BinaryRequest } from './binary.ts';
import { BinaryError } from './errors.ts';
import { type BuildRecipe, buildRecipe, readModuleFile, throwAwayModule } from './go-module.ts';
import type { Platform } from './platform.ts';
import type { Report } from './progress.ts';
import { reportedVersion } from './user-directories.ts';
import { goSuffices, knownGoVersion } from './version.ts';

export interface GoBuildOptions extends Workshop {
  request: BinaryRequest;
}

/** Where and how programs are built. */
export interface Workshop {
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
}

const linesKept = 15;

/**
 * Builds a program from Go modules with the machine's own toolchain.
 * @returns path of the program, which has told the right version
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
  workshop: Workshop,
  neededGo?: string,
): Promise<string> {
  const { directory, report } = workshop;
  const what = `${name} ${recipe.moduleVersion.replace(/^v/, '')}`;
  const go = new GoCommand(workshop);

  report('building', 'looking at the Go toolchain');
  const toolchain = (await go.run(['env', 'GOVERSION'])).trim();
  refuseOldGo(toolchain, neededGo, what);
  await writeFile(join(directory, 'go.mod'), 'module skerry.local/build\n');
  report('building', `asking for ${recipe.module} ${recipe.moduleVersion}`);
  const facts = readModuleFile(await moduleFile(go, recipe));
  refuseOldGo(toolchain, facts.goVersion, what);
  await writeFile(join(directory, 'go.mod'), throwAwayModule(recipe, facts));

  const progress = new GoProgress();
  const onLine = (line: string) => report('building', progress.next(line));
  report('building', 'resolving modules');
  await go.run(['get', `${recipe.module}@${recipe.moduleVersion}`], onLine);
  if (recipe.source !== undefined) await writeFile(join(directory, 'main.go'), recipe.source);
  const program = join(directory, name);
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
      recipe.source === undefined ? recipe.package : '.',
    ],
    onLine,
  );
  return program;
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

function refuseOldGo(toolchain: string, needed: string | undefined, what: string): void {
  if (needed !== undefined && !goSuffices(toolchain, needed)) {
    throw new BinaryError('GoTooOld', `${what} needs Go ${needed} or newer, this machine has ${toolchain}`);
  }
}

class GoCommand {
  readonly #options: Workshop;
  readonly #env: Record<string, string | undefined>;

  constructor(options: Workshop) {
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

/** One line of progress from what go prints. How many packages there will be is not known beforehand. */
export class GoProgress {
  #modules = 0;
  #packages = 0;

  next(line: string): string {
    const fetched = /^go: downloading (\S+) (\S+)/.exec(line);
    if (fetched !== null) {
      this.#modules += 1;
      return `fetching modules (${this.#modules}): ${fetched[1]} ${fetched[2]}`;
    }
    if (/^go: /.test(line)) return line.slice(4);
    this.#packages += 1;
    return `compiling packages (${this.#packages}): ${line}`;
  }
}
