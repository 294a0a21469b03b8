import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { execa, type Options } from 'execa';
import { defaultCacheDirectory } from '../../vc-manager/binaries/index.ts';
import type { World } from './world.ts';

const root = join(import.meta.dirname, '..', '..');

/** The text of a page, by its path in the repository. */
export function pageOf(path: string): string {
  return readFileSync(join(root, path), 'utf8');
}

/**
 * Somebody who types what the documentation says, in a home directory of their own. `vc-manager`, `vc-syncer` and `npx`,
 * whatever package that is asked for, are those of this repository.
 */
export class Reader {
  /** Home directory, where commands run. */
  readonly home: string;
  /** Comes first on the PATH. */
  readonly programs: string;
  readonly #env: Readonly<Record<string, string>>;

  /** `programs`: paths of others by name; `env`: what the reader has exported, such as KUBECONFIG. */
  constructor(
    home: string,
    programs: Readonly<Record<string, string>>,
    env: Readonly<Record<string, string>>,
  ) {
    this.home = home;
    this.programs = join(home, 'bin');
    this.#env = env;
    mkdirSync(this.programs, { recursive: true });
    const bin = (name: string): string => `exec '${process.execPath}' '${join(root, 'bin', name)}.js' "$@"`;
    this.#program('vc-manager', bin('vc-manager'));
    this.#program('vc-syncer', bin('vc-syncer'));
    this.#program('npx', `shift; ${bin('vc-manager')}`);
    for (const [name, path] of Object.entries(programs)) this.#program(name, `exec '${path}' "$@"`);
  }

  /** Of the stack of a suite, with the super cluster's admin as kubectl's user. */
  static of(world: World, name = 'reader'): Reader {
    const home = world.file(name);
    const kubeconfig = join(home, 'super-cluster.kubeconfig');
    const { kubectlPath } = world.superCluster;
    const env = { KUBECONFIG: kubeconfig, SKERRY_STATE: world.stateDir };
    const reader = new Reader(home, { kubectl: kubectlPath }, env);
    writeFileSync(kubeconfig, world.superCluster.kubeconfig, { mode: 0o600 });
    return reader;
  }

  #program(name: string, command: string): void {
    writeFileSync(join(this.programs, name), `#!/bin/sh\n${command}\n`, { mode: 0o755 });
  }

  get #options() {
    return {
      cwd: this.home,
      env: {
        PATH: [this.programs, process.env['PATH']].join(delimiter),
        HOME: this.home,
        // With what was fetched or built before.
        SKERRY_CACHE: defaultCacheDirectory(process.env),
        ...this.#env,
      },
      extendEnv: false,
      stdin: 'ignore',
      reject: false,
    } satisfies Options;
  }

  /** Runs a script as it would be pasted, up to its first failure; throws what it has printed when it fails. */
  async run(what: string, script: string, cwd = this.home): Promise<{ stdout: string; stderr: string }> {
    return this.#run(what, ['bash', '-Eeuc', script], cwd);
  }

  /** As `run`, for a script that waits for something: when that takes longer, the script and what it has started end. */
  async runWithin(
    seconds: number,
    what: string,
    script: string,
  ): Promise<{ stdout: string; stderr: string }> {
    return this.#run(what, ['timeout', '--verbose', String(seconds), 'bash', '-Eeuc', script], this.home);
  }

  async #run(what: string, [program = '', ...args]: readonly string[], cwd: string) {
    const options = { ...this.#options, cwd, all: true } as const;
    const { exitCode, stdout, stderr, all } = await execa(program, args, options);
    if (exitCode !== 0) throw new Error(`${what} ended with ${exitCode}:\n${all}`);
    return { stdout, stderr };
  }

  /** Starts one command that runs until it gets a signal, which `kill` sends to it. Never rejects. */
  start(command: string, cwd = this.home) {
    return execa('bash', ['-c', `exec ${command}`], { ...this.#options, cwd, all: true });
  }
}
