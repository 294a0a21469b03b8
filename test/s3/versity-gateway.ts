import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from '../../kube/testing/free-port.ts';
import { built, Cache } from '../real-node/build/programs.ts';

const module = 'github.com/versity/versitygw';
const version = '1.8.0';

const region = 'eu-test-1';

/** Path of the program: built once, into the cache outside of the repository. */
function provideProgram(): Promise<string> {
  const cache = new Cache({
    ...{ env: process.env, room: 's3' },
    signal: new AbortController().signal,
    tell: (line) => console.log(line),
  });
  const recipe = {
    ...{ module, moduleVersion: `v${version}`, package: `${module}/cmd/versitygw` },
    ldflags: '-s -w',
  };
  return built(cache, 'versitygw', { edition: version, recipe });
}

/** A real S3 server on loopback, https://github.com/versity/versitygw, that keeps objects as files. */
export class VersityGateway {
  readonly accessKeyId = 'AKIATEST';
  readonly secretAccessKey = 'a secret of the test';
  /** Each directory in it is a bucket, and each file in that an object. */
  readonly directory: string;
  readonly #program: string;
  readonly #port: number;
  #process: ChildProcess | undefined;

  private constructor(program: string, directory: string, port: number) {
    this.#program = program;
    this.directory = directory;
    this.#port = port;
  }

  static async start(): Promise<VersityGateway> {
    const program = await provideProgram();
    const directory = await mkdtemp(join(tmpdir(), 'skerry-s3-'));
    const server = new VersityGateway(program, join(directory, 'buckets'), await freePort());
    for (const each of ['buckets', 'metadata']) await mkdir(join(directory, each));
    await server.start();
    return server;
  }

  get endpoint(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** What a program finds its way and credentials by. */
  get env(): Record<string, string> {
    return {
      AWS_ENDPOINT_URL: this.endpoint,
      AWS_REGION: region,
      AWS_ACCESS_KEY_ID: this.accessKeyId,
      AWS_SECRET_ACCESS_KEY: this.secretAccessKey,
    };
  }

  async start(): Promise<void> {
    const args = [
      ...['--port', `127.0.0.1:${this.#port}`, '--region', region, '--health', '/healthz', '--quiet'],
      // Not every file system keeps attributes of files.
      ...['posix', '--sidecar', join(this.directory, '../metadata'), this.directory],
    ];
    const child = spawn(this.#program, args, {
      env: { ROOT_ACCESS_KEY_ID: this.accessKeyId, ROOT_SECRET_ACCESS_KEY: this.secretAccessKey },
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    this.#process = child;
    for (;;) {
      if (child.exitCode !== null) throw new Error(`versitygw has ended with ${child.exitCode}`);
      const isUp = await fetch(`${this.endpoint}/healthz`).then(
        ({ ok }) => ok,
        () => false,
      );
      if (isUp) return;
      await delay(20);
    }
  }

  /** As when its machine fails. */
  async kill(): Promise<void> {
    const child = this.#process;
    this.#process = undefined;
    if (child === undefined || child.exitCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  }

  /** It takes what it is sent, and answers nothing. */
  pause(): void {
    this.#process?.kill('SIGSTOP');
  }

  resume(): void {
    this.#process?.kill('SIGCONT');
  }

  async stop(): Promise<void> {
    await this.kill();
    await rm(join(this.directory, '..'), { recursive: true, force: true });
  }
}
