import type { Clock } from '../../kube/index.ts';

/** A stream as far as the commands care: text goes in, and it may be a terminal. */
export interface Output {
  write(text: string): boolean;
  readonly isTTY?: boolean;
  readonly columns?: number;
}

/** What every command works with; nothing else reads the environment or writes to the terminal. */
export interface Cli {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Data only. */
  readonly stdout: Output & NodeJS.WritableStream;
  /** Progress, notes and errors. */
  readonly stderr: Output & NodeJS.WritableStream;
  readonly clock: Clock;
  /** Aborted by Ctrl-C or SIGTERM. Commands that take care of signals themselves ignore it. */
  readonly signal: AbortSignal;
  /** Takes signals over: from then on they do not abort `signal`, but come here. */
  onSignal(listener: (signal: NodeJS.Signals) => void): void;
  setExitCode(code: number): void;
}

/** Options that every command understands. */
export interface GlobalFlags {
  kubeconfig?: string;
  context?: string;
  stateDir?: string;
  verbose?: boolean;
}
