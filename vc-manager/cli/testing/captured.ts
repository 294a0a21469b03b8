import { Writable } from 'node:stream';
import { runCli } from '../program.ts';

/** A stream that keeps what was written to it. */
export class Captured extends Writable {
  readonly isTTY: boolean;
  readonly columns: number;
  text = '';

  constructor(options: { isTTY?: boolean; columns?: number } = {}) {
    super();
    this.isTTY = options.isTTY ?? false;
    this.columns = options.columns ?? 80;
  }

  override _write(chunk: Buffer, _: BufferEncoding, done: () => void): void {
    this.text += chunk.toString();
    done();
  }
}

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
