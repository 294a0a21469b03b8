/** Something that takes a while, while it goes on. */
export interface Step {
  /** What it does at the moment; replaces what it said before. */
  tell(message: string): void;
  /** It ended well. */
  done(message?: string): void;
  /** It ended badly; the error itself is told elsewhere. */
  fail(message?: string): void;
}

/** How long work is told to people; several steps may go on at once. */
export interface Progress {
  step(title: string): Step;
  /** A line that stays. */
  note(message: string): void;
  /** Nothing is drawn any more. */
  close(): void;
}

/** Runs `work` as one step. */
export async function inStep<T>(
  progress: Progress,
  title: string,
  work: (step: Step) => Promise<T>,
  summary?: (result: T) => string | undefined,
): Promise<T> {
  const step = progress.step(title);
  try {
    const result = await work(step);
    step.done(summary?.(result));
    return result;
  } catch (error) {
    step.fail();
    throw error;
  }
}
