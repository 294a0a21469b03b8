import { once } from 'node:events';
import { mkdir, rm } from 'node:fs/promises';
import { connect, createServer, type Socket } from 'node:net';
import { dirname } from 'node:path';
import { z } from 'zod';
import { identify, sendSignal } from '../../../os/process-identity.ts';
import { noKeeper } from '../../errors.ts';
import { type Spawn, type Spawned, spawnChild } from '../component-process.ts';

/** One connection is one process. The manager sends this as a line of JSON; the lines that come back are below. */
const spawnRequest = z.strictObject({
  command: z.string(),
  args: z.array(z.string()),
  env: z.record(z.string(), z.string()),
  cwd: z.string(),
  logFile: z.string(),
  timerSlackMs: z.int().nonnegative().exactOptional(),
});

/** At once: whether there is a process now. */
const startAnswer = z.union([z.strictObject({ pid: z.int() }), z.strictObject({ error: z.string() })]);

/** When it has ended. */
const exitAnswer = z.strictObject({
  code: z.int().exactOptional(),
  signal: z.string().exactOptional(),
});

function lineOf(message: object): string {
  return `${JSON.stringify(message)}\n`;
}

/** Throws when the connection breaks. */
async function* linesOf(socket: Socket): AsyncGenerator<string> {
  let rest = '';
  for await (const chunk of socket.setEncoding('utf8')) {
    const lines = `${rest}${chunk as string}`.split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
}

interface ProcessKeeperOptions {
  /** Path of the Unix socket. A process that may write to it starts programs as this user: its folder is made for the owner alone. */
  socket: string;
}

/**
 * Starts the processes of control planes on behalf of managers that run in containers of their own: a container that
 * ends takes along all that was started in it. Managers find and end those processes by themselves, so they have to
 * share a namespace of processes and the files with the keeper.
 */
export class ProcessKeeper {
  readonly #socket: string;
  readonly #running = new Set<Spawned>();
  #isEnding = false;

  constructor({ socket }: ProcessKeeperOptions) {
    this.#socket = socket;
  }

  /** Until aborted; then it ends all that it has started. `onListening` is called once it can be asked. */
  async run(signal: AbortSignal, onListening?: () => void): Promise<void> {
    await mkdir(dirname(this.#socket), { recursive: true, mode: 0o700 });
    // Of a keeper that was killed.
    await rm(this.#socket, { force: true });
    const sockets = new Set<Socket>();
    const server = createServer((socket) => {
      sockets.add(socket.on('close', () => sockets.delete(socket)).on('error', () => undefined));
      void this.#serve(socket);
    });
    server.listen(this.#socket);
    await once(server, 'listening');
    onListening?.();
    if (!signal.aborted) await once(signal, 'abort');
    const closed = once(server, 'close');
    server.close();
    this.#isEnding = true;
    await this.#endAll();
    for (const socket of sockets) socket.destroy();
    await closed;
  }

  async #serve(socket: Socket): Promise<void> {
    try {
      for await (const line of linesOf(socket)) await this.#start(line, socket);
    } catch {
      // The manager has gone, which is nothing to its processes.
    }
  }

  async #start(line: string, socket: Socket): Promise<void> {
    try {
      const request = spawnRequest.parse(JSON.parse(line));
      if (this.#isEnding) throw new Error('the keeper is ending');
      const spawned = await spawnChild(request);
      this.#running.add(spawned);
      void spawned.exited.then((exit) => {
        this.#running.delete(spawned);
        if (socket.writable) socket.end(lineOf(exit));
      });
      socket.write(lineOf({ pid: spawned.pid }));
    } catch (error) {
      socket.end(lineOf({ error: (error as Error).message }));
    }
  }

  /** As long as it takes: the process that stops the keeper has its own timeout. */
  async #endAll(): Promise<void> {
    // Children alone do not keep this program running.
    const running = setInterval(() => undefined, 60_000);
    await Promise.all(
      [...this.#running].map(async ({ pid, exited }) => {
        const identity = await identify(pid);
        if (identity !== undefined) await sendSignal(identity, 'SIGTERM');
        await exited;
      }),
    );
    clearInterval(running);
  }
}

/** A start takes milliseconds. A keeper that is halted accepts connections and does not answer. */
const answerTimeoutMs = 10_000;

/** Has the keeper at this Unix socket start programs. Rejects with `KeeperUnavailable` when there is none. */
export function spawnByKeeper(path: string, timeoutMs = answerTimeoutMs): Spawn {
  return async (request) => {
    const socket = connect(path);
    const answers = linesOf(socket);
    socket.write(lineOf(request));
    const answer = await firstAnswer(socket, answers, timeoutMs).catch((error: unknown) => {
      socket.destroy();
      throw noKeeper(path, error);
    });
    if ('error' in answer) {
      socket.destroy();
      throw new Error(answer.error);
    }
    socket.unref();
    const exited = answers.next().then(({ done, value }) => {
      if (done === true) throw new Error('the keeper has closed the connection');
      return exitAnswer.parse(JSON.parse(value));
    });
    exited.then(
      () => socket.destroy(),
      () => socket.destroy(),
    );
    return { pid: answer.pid, exited, release: () => void socket.destroy() };
  };
}

async function firstAnswer(
  socket: Socket,
  answers: AsyncGenerator<string>,
  timeoutMs: number,
): Promise<z.infer<typeof startAnswer>> {
  const late = setTimeout(() => {
    socket.destroy(new Error(`it has not answered within ${timeoutMs / 1000} s`));
  }, timeoutMs);
  try {
    const { done, value } = await answers.next();
    if (done === true) throw new Error('it has closed the connection');
    return startAnswer.parse(JSON.parse(value));
  } finally {
    clearTimeout(late);
  }
}
