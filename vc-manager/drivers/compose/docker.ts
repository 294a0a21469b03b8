import { execa } from 'execa';
import { isOlderVersion } from '../../binaries/index.ts';
import { DriverError } from '../errors.ts';

/** Oldest Docker Compose that the driver is written for. */
const oldestCompose = '2.20.0';

interface Where {
  id: string;
  component: string;
}

function noDocker(cause: unknown): DriverError {
  return new DriverError(
    'EngineUnavailable',
    'there is no program "docker" in PATH. Install the Docker CLI with its Compose plugin (Debian: docker-cli and docker-compose; Docker: docker-ce-cli and docker-compose-plugin), or choose another --driver.',
    {},
    { cause },
  );
}

function noEngine(said: string): DriverError {
  return new DriverError(
    'EngineUnavailable',
    `the Docker engine does not answer: ${lastLine(said)}. Start it (systemctl start docker), see that this user may use its socket (group docker), and that DOCKER_HOST or the Docker context name the engine of this machine ("docker info" must work).`,
    {},
  );
}

function noCompose(said: string): DriverError {
  return new DriverError(
    'EngineTooOld',
    `"docker compose" does not work: ${lastLine(said)}. Install the Compose plugin, version ${oldestCompose} or later (docker-compose-plugin); the older program docker-compose will not do.`,
    {},
    { retryable: false },
  );
}

function composeTooOld(version: string): DriverError {
  return new DriverError(
    'EngineTooOld',
    `Docker Compose ${version} is too old: ${oldestCompose} or later is needed (docker-compose-plugin).`,
    {},
    { retryable: false },
  );
}

export function imageMissing(where: Where, image: string, said: string): DriverError {
  return new DriverError(
    'ImageMissing',
    `the Docker engine does not have ${image}, which ${where.component} of ${where.id} needs, and cannot pull it: ${lastLine(said)}. Load it into the engine (docker load), or name a registry that has it (--image-registry).`,
    where,
  );
}

export function noImage(where: Where, command: string): DriverError {
  return new DriverError(
    'NoImage',
    `${where.component} of ${where.id} is the program ${command} of this machine; containers can run only what Kubernetes, etcd and kwok publish images of. Use --driver process for it.`,
    where,
    { retryable: false },
  );
}

/** `docker` has refused something that should work. */
export function refused(where: Partial<Where>, doing: string, said: string): DriverError {
  return new DriverError('CannotStart', `Docker could not ${doing}: ${lastLine(said)}`, where);
}

/** The CLI puts the reason last, after its progress. */
function lastLine(said: string): string {
  const line = said
    .split('\n')
    .map((each) => each.trim())
    .filter((each) => each !== '')
    .at(-1);
  return (line ?? 'it gave no reason').replace(/\.$/, '');
}

/** From what `docker compose version --short` prints; undefined when that is no version. */
export function parseComposeVersion(printed: string): { text: string; suffices: boolean } | undefined {
  const text = printed.trim().replace(/^v/, '');
  if (!/^\d+\.\d+\.\d+/.test(text)) return undefined;
  return { text, suffices: !isOlderVersion(text, oldestCompose) };
}

/** What a command has said and how it ended; 0 is success. */
export interface DockerResult {
  exitCode: number;
  stdout: string;
  stderr: string;
}

interface RunOptions {
  signal?: AbortSignal | undefined;
  input?: string | Uint8Array;
}

const unreachable =
  /cannot connect to the docker daemon|permission denied while trying to connect|error during connect|failed to connect to the docker api|is the docker daemon running|unable to resolve docker endpoint/i;

/**
 * The `docker` command line, which knows contexts, hosts and credentials as its user has set them up. Throws
 * DriverError `EngineUnavailable` when it is not there or its engine does not answer.
 */
export class Docker {
  readonly #env: Record<string, string>;
  /** Settles once; forgotten when it fails, so that the next call asks again. */
  #checked: Promise<void> | undefined;

  /** @param environment of the commands: PATH, HOME, and what begins with DOCKER_. */
  constructor(environment: NodeJS.ProcessEnv) {
    this.#env = Object.fromEntries(
      Object.entries(environment).filter((entry): entry is [string, string] => entry[1] !== undefined),
    );
  }

  /** Gives back what happened, also when the command failed. */
  async run(args: readonly string[], { signal, input }: RunOptions = {}): Promise<DockerResult> {
    const result = await execa('docker', args, {
      env: this.#env,
      extendEnv: false,
      reject: false,
      stripFinalNewline: true,
      ...(signal && { cancelSignal: signal }),
      ...(input === undefined ? { stdin: 'ignore' as const } : { input }),
    });
    signal?.throwIfAborted();
    if (result.code === 'ENOENT') throw noDocker(result.cause);
    const { stdout, stderr } = result;
    if (result.exitCode !== 0 && unreachable.test(stderr)) throw noEngine(stderr);
    return { exitCode: result.exitCode ?? 1, stdout, stderr };
  }

  /** Lines of standard output and standard error as they come, until the command ends or the signal is aborted. */
  async *lines(args: readonly string[], signal: AbortSignal): AsyncGenerator<string> {
    if (signal.aborted) return;
    const subprocess = execa('docker', args, {
      env: this.#env,
      extendEnv: false,
      reject: false,
      buffer: false,
      all: true,
      stdin: 'ignore',
      cancelSignal: signal,
    });
    const iterator = subprocess.iterable({ from: 'all' })[Symbol.asyncIterator]();
    try {
      for (let next = await iterator.next(); next.done !== true; next = await iterator.next())
        yield next.value;
    } finally {
      // First: the iterator ends only when the command has, and one that follows does not end by itself.
      subprocess.kill();
      await iterator.return?.();
    }
    const result = await subprocess;
    if (result.code === 'ENOENT') throw noDocker(result.cause);
  }

  /** Throws `EngineUnavailable` or `EngineTooOld`, unless engine and Compose can be worked with. */
  async check(): Promise<void> {
    this.#checked ??= this.#check();
    try {
      await this.#checked;
    } catch (error) {
      this.#checked = undefined;
      throw error;
    }
  }

  async #check(): Promise<void> {
    const engine = await this.run(['version', '--format', '{{.Server.Version}}']);
    if (engine.exitCode !== 0) throw noEngine(engine.stderr);
    const compose = await this.run(['compose', 'version', '--short']);
    const version = parseComposeVersion(compose.stdout);
    if (compose.exitCode !== 0 || version === undefined) throw noCompose(compose.stderr || compose.stdout);
    if (!version.suffices) throw composeTooOld(version.text);
  }
}
