import { runCli } from '../program.ts';
import { Captured } from './captured.ts';

/** Runs a command line as the shell would, in an environment with nothing in it but what is given. */
export async function runCaptured(
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<{ exitCode: number; stdout: string; stderr: string }> {
  const stdout = new Captured();
  const stderr = new Captured();
  const exitCode = await runCli(args, { env, stdout, stderr });
  return { exitCode, stdout: stdout.text, stderr: stderr.text };
}
