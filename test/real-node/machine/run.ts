import { execa } from 'execa';

/** Runs a program and gives what it printed; throws with its words when it fails. */
export async function run(
  command: string,
  args: readonly string[],
  { signal, env }: { signal?: AbortSignal; env?: Record<string, string> } = {},
): Promise<string> {
  const result = await execa(command, args, {
    reject: false,
    stdin: 'ignore',
    ...(signal && { cancelSignal: signal }),
    ...(env && { env }),
  });
  signal?.throwIfAborted();
  if (result.failed) {
    throw new Error(
      `${command} ${args.join(' ')} failed: ${result.stderr || result.stdout || result.shortMessage}`,
    );
  }
  return result.stdout;
}
