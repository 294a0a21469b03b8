import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import { freePort } from '../../../kube/testing/free-port.ts';
import { ServerProcess } from '../../../kube/testing/server-process.ts';

/** Why no Redis server can be started here; undefined when one can. Throws where there has to be one. */
export function whyNoRedis(): string | undefined {
  const { error } = spawnSync('redis-server', ['--version']);
  if (error === undefined) return undefined;
  const why = 'there is no redis-server here (Debian: apt-get install redis-server)';
  if (process.env['SKERRY_REQUIRE_REDIS'] === '1') throw new Error(why);
  return why;
}

interface RedisOptions {
  /** Where it listens; loopback by default. */
  host?: string;
  /** Needed by whoever comes from elsewhere than loopback: without one Redis refuses them. */
  password?: string;
  /** It speaks TLS only, with this certificate for its host. */
  tls?: { certPem: string; keyPem: string };
}

/** A real Redis server with a directory of its own and nothing kept. */
export class RedisServer {
  readonly port: number;
  readonly #host: string;
  readonly #password: string | undefined;
  readonly #tls: RedisOptions['tls'];
  readonly #directory: string;
  readonly #process = new ServerProcess('redis-server');

  private constructor(port: number, { host = '127.0.0.1', password, tls }: RedisOptions) {
    this.port = port;
    this.#host = host;
    this.#password = password;
    this.#tls = tls;
    this.#directory = mkdtempSync(join(tmpdir(), 'skerry-redis-'));
  }

  static async start(options: RedisOptions = {}): Promise<RedisServer> {
    const server = new RedisServer(await freePort(options.host), options);
    await server.start();
    return server;
  }

  get url(): string {
    const secret = this.#password === undefined ? '' : `:${this.#password}@`;
    return `${this.#tls === undefined ? 'redis' : 'rediss'}://${secret}${this.#host}:${this.port}/0`;
  }

  /** Empty, as nothing is kept. */
  async start(): Promise<void> {
    const settings = {
      ...(this.#tls === undefined ? { port: this.port } : this.#tlsSettings(this.#tls)),
      bind: this.#host,
      dir: this.#directory,
      appendonly: 'no',
      ...(this.#password !== undefined && { requirepass: this.#password }),
    };
    const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, String(value)]);
    await this.#process.start({
      args: [...args, '--save', ''],
      stdio: 'ignore',
      isUp: () => this.#listens(),
    });
  }

  /** As when its machine fails. */
  async kill(): Promise<void> {
    await this.#process.kill();
  }

  /** Stands still from now on: it takes what it is sent, and answers nothing. */
  pause(): void {
    this.#process.pause();
  }

  resume(): void {
    this.#process.resume();
  }

  async stop(): Promise<void> {
    await this.kill();
    rmSync(this.#directory, { recursive: true, force: true });
  }

  #tlsSettings({ certPem, keyPem }: { certPem: string; keyPem: string }): Record<string, unknown> {
    const file = (name: string, text: string): string => {
      const path = join(this.#directory, name);
      writeFileSync(path, text);
      return path;
    };
    return {
      port: 0,
      'tls-port': this.port,
      'tls-auth-clients': 'no',
      'tls-cert-file': file('tls.crt', certPem),
      'tls-key-file': file('tls.key', keyPem),
    };
  }

  #listens(): Promise<boolean> {
    return new Promise((resolve) => {
      const place = { port: this.port, host: this.#host };
      const socket =
        this.#tls === undefined
          ? connect(place)
          : connectTls({ ...place, ca: this.#tls.certPem, allowPartialTrustChain: true });
      socket.once('error', () => resolve(false));
      socket.once('data', (data) => {
        socket.destroy();
        resolve(/^(\+PONG|-NOAUTH)/.test(data.toString()));
      });
      socket.once(this.#tls === undefined ? 'connect' : 'secureConnect', () => socket.write('PING\r\n'));
    });
  }
}
