import type { Clock } from '../../kube/index.ts';

/** What commands need of an output stream, which may be a terminal. */
export interface Output {
  write(text: string): boolean;
  readonly isTTY?: boolean;
  readonly columns?: number;
}

/** Passed to every command; commands use no other environment, streams or clock. */
export interface Cli {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Absent: no question can be asked. */
  readonly stdin?: NodeJS.ReadableStream & { readonly isTTY?: boolean };
  /** Data only. */
  readonly stdout: Output & NodeJS.WritableStream;
  /** Progress, notes and errors. */
  readonly stderr: Output & NodeJS.WritableStream;
  readonly clock: Clock;
  /** Aborted by Ctrl-C or SIGTERM. Commands that call `onSignal` handle signals themselves. */
  readonly signal: AbortSignal;
  /** From this call on, signals go to `listener` and no longer abort `signal`. */
  onSignal(listener: (signal: NodeJS.Signals) => void): void;
  setExitCode(code: number): void;
  /** From this call on, the command goes on when nobody reads `stdout` any more. */
  outlivesReader(): void;
}

/** Options that every command understands. */
export interface GlobalFlags {
  kubeconfig?: string;
  context?: string;
  stateDir?: string;
  verbose?: boolean;
}
