import { type EngineInfo, mustDocker } from '../engine/index.ts';
import { redisImage } from '../images/index.ts';
import type { Containers } from './index.ts';

/** A Redis server in a container, which keeps nothing when that is started again. */
export class RedisContainer {
  readonly url: string;
  readonly #engine: EngineInfo;
  readonly #id: string;
  readonly #port: string;

  private constructor(engine: EngineInfo, id: string, port: string) {
    this.#engine = engine;
    this.#id = id;
    this.#port = port;
    this.url = `redis://127.0.0.1:${port}/0`;
  }

  static async start(engine: EngineInfo, containers: Containers, port: string): Promise<RedisContainer> {
    const started = await containers
      .container(redisImage)
      .withUser('65532:65532')
      .withTmpFs({ '/tmp': 'rw' })
      .withEntrypoint(['redis-server'])
      .withCommand(['--port', port, '--bind', '127.0.0.1', '--dir', '/tmp', '--save', ''])
      .start();
    await containers.logged(started, /Ready to accept connections/);
    return new RedisContainer(engine, started.getId(), port);
  }

  /** What `redis-cli` prints. */
  ask(...command: string[]): Promise<string> {
    return mustDocker(this.#engine, ['exec', this.#id, 'redis-cli', '-p', this.#port, ...command]);
  }

  /** `docker pause`, `unpause`, `restart` or `kill`. */
  async docker(what: 'pause' | 'unpause' | 'restart' | 'kill'): Promise<void> {
    await mustDocker(this.#engine, [what, this.#id]);
  }

  async remove(): Promise<void> {
    await mustDocker(this.#engine, ['rm', '--force', this.#id]);
  }
}
