import type { GenericContainer, StartedTestContainer } from 'testcontainers';
import { type EngineInfo, mustDocker } from '../engine/engine.ts';
import { redisImage } from '../images/index.ts';

interface ContainerState {
  State: { ExitCode: number; OOMKilled: boolean; Paused: boolean; Running: boolean };
}

/** Testcontainers at the engine of the tests. */
export interface Containers {
  /** On the host's network, which is the only one, and without capabilities. */
  container(image: string): GenericContainer;
  /** Returns when a line of the container's log is like this. */
  logged(container: StartedTestContainer, line: RegExp): Promise<void>;
  /** Returns when the container has ended. */
  ended(id: string): Promise<{ StatusCode: number }>;
  inspect(id: string): Promise<ContainerState>;
  /** All that it has printed to standard output. */
  output(id: string): Promise<string>;
  remove(id: string): Promise<void>;
  close(): Promise<void>;
}

export async function openContainers(engine: EngineInfo): Promise<Containers> {
  const before = { ...process.env };
  // It looks for its engine once, when it is first used. What would clean up after it is an image of its own, which
  // is not to be had here: the engine goes as a whole. And where this machine is a container itself, it would ask a
  // bridge for the way out, of which there is none.
  const settings = { TESTCONTAINERS_RYUK_DISABLED: 'true', TESTCONTAINERS_HOST_OVERRIDE: '127.0.0.1' };
  Object.assign(process.env, engine.env, settings);
  const { GenericContainer } = await import('testcontainers');
  return {
    container: (image) =>
      new GenericContainer(image)
        .withNetworkMode('host')
        .withDroppedCapabilities('ALL')
        .withAutoRemove(false),
    logged: async (container, line) => {
      const logs = await container.logs();
      await new Promise<void>((resolve, reject) => {
        let seen = '';
        logs
          .on('data', (part: Buffer | string) => {
            seen += String(part);
            if (line.test(seen)) resolve();
          })
          .on('end', () => reject(new Error(`it ended without ${line}: ${seen}`)));
      });
      logs.destroy();
    },
    ended: async (id) => ({ StatusCode: Number(await mustDocker(engine, ['wait', id])) }),
    inspect: async (id) => (JSON.parse(await mustDocker(engine, ['inspect', id])) as [ContainerState])[0],
    output: (id) => mustDocker(engine, ['logs', id]),
    remove: async (id) => void (await mustDocker(engine, ['rm', '--force', id])),
    close: async () => {
      for (const name of Object.keys({ ...engine.env, ...settings })) {
        if (before[name] === undefined) delete process.env[name];
        else process.env[name] = before[name];
      }
    },
  };
}

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
