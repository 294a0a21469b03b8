import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../../kube/testing/free-port.ts';
import { ServerProcess } from '../../kube/testing/server-process.ts';
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
  readonly #process: ServerProcess;
  readonly #port: number;

  private constructor(program: string, directory: string, port: number) {
    this.#process = new ServerProcess(program);
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
    await this.#process.start({
      args,
      env: { ROOT_ACCESS_KEY_ID: this.accessKeyId, ROOT_SECRET_ACCESS_KEY: this.secretAccessKey },
      stdio: ['ignore', 'ignore', 'inherit'],
      isUp: () =>
        fetch(`${this.endpoint}/healthz`).then(
          ({ ok }) => ok,
          () => false,
        ),
    });
  }

  /** As when its machine fails. */
  async kill(): Promise<void> {
    await this.#process.kill();
  }

  /** It takes what it is sent, and answers nothing. */
  pause(): void {
    this.#process.pause();
  }

  resume(): void {
    this.#process.resume();
  }

  async stop(): Promise<void> {
    await this.kill();
    await rm(join(this.directory, '..'), { recursive: true, force: true });
  }
}
