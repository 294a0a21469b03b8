import type { Socket } from 'node:net';
import { z } from 'zod';

/** One connection is one process. The manager sends this as a line of JSON; the lines that come back are below. */
export const spawnRequest = z.strictObject({
  command: z.string(),
  args: z.array(z.string()),
  env: z.record(z.string(), z.string()),
  cwd: z.string(),
  logFile: z.string(),
});

/** At once: whether there is a process now. */
export const startAnswer = z.union([z.strictObject({ pid: z.int() }), z.strictObject({ error: z.string() })]);

/** When it has ended. */
export const exitAnswer = z.strictObject({
  code: z.int().exactOptional(),
  signal: z.string().exactOptional(),
});

export function lineOf(message: object): string {
  return `${JSON.stringify(message)}\n`;
}

/** Throws when the connection breaks. */
export async function* linesOf(socket: Socket): AsyncGenerator<string> {
  let rest = '';
  for await (const chunk of socket.setEncoding('utf8')) {
    const lines = `${rest}${chunk as string}`.split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
}
