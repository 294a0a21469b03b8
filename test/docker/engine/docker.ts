import { execa } from 'execa';
import type { EngineInfo } from './engine.ts';

export interface DockerResult {
  exitCode: number;
  stdout: string;
  stderr: string;
}

export interface DockerOptions {
  /** Beside DOCKER_HOST and DOCKER_CONFIG. */
  env?: Record<string, string>;
  cwd?: string;
  /** Standard input. */
  input?: string;
  timeoutMs?: number;
}

const defaultTimeoutMs = 120_000;

/** Runs `docker ...` at the engine; gives what happened, and throws only when it did not end in time. */
export async function docker(
  { env }: EngineInfo,
  args: readonly string[],
  options: DockerOptions = {},
): Promise<DockerResult> {
  const timeoutMs = options.timeoutMs ?? defaultTimeoutMs;
  const result = await execa('docker', args, {
    env: { ...env, ...options.env },
    reject: false,
    timeout: timeoutMs,
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    ...(options.input === undefined ? { stdin: 'ignore' as const } : { input: options.input }),
  });
  if (result.timedOut) {
    throw new Error(
      `docker ${args.join(' ')} did not end within ${timeoutMs / 1000} s: ${String(result.stdout)}${String(result.stderr)}`,
    );
  }
  return { exitCode: result.exitCode ?? 1, stdout: String(result.stdout), stderr: String(result.stderr) };
}

/** As `docker`, for what must succeed: gives standard output, and throws with its words when it fails. */
export async function mustDocker(
  engine: EngineInfo,
  args: readonly string[],
  options: DockerOptions = {},
): Promise<string> {
  const { exitCode, stdout, stderr } = await docker(engine, args, options);
  if (exitCode !== 0) throw new Error(`docker ${args.join(' ')} failed: ${stderr || stdout}`);
  return stdout;
}
