import type { GenericContainer, StartedTestContainer } from 'testcontainers';
import { type EngineInfo, mustDocker } from '../engine/index.ts';

export interface ContainerState {
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
