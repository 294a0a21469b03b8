import type { BinaryName } from './binary.ts';

export type BinaryStage = 'waiting' | 'downloading' | 'verifying' | 'building' | 'note' | 'ready';

/** What is happening to one binary, fit for one line that is overwritten by the next. `note` lines are worth keeping. */
export interface BinaryProgress {
  name: BinaryName;
  version: string;
  stage: BinaryStage;
  /** Without name and version: `31 of 105 MB`. */
  message: string;
  /** 0..100, where the end is known. */
  percent?: number;
  /** Since this binary was asked for. */
  elapsedMs: number;
}

/** A stage's way to report: name, version and time are added by whoever hands it out. */
export type Report = (stage: BinaryStage, message: string, percent?: number) => void;

export function megabytes(bytes: number): string {
  return bytes < 10_000_000 ? (bytes / 1_000_000).toFixed(1) : String(Math.round(bytes / 1_000_000));
}
