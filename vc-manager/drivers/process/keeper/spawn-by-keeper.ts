import { connect, type Socket } from 'node:net';
import type { z } from 'zod';
import { noKeeper } from '../../errors.ts';
import type { Spawn } from '../spawn.ts';
import { exitAnswer, lineOf, linesOf, startAnswer } from './protocol.ts';

/** A start takes milliseconds. A keeper that is halted accepts connections, and answers nobody. */
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
