import { stripVTControlCharacters } from 'node:util';
import type { Clock } from '../../kube/index.ts';
import type { Cli, Output } from './context.ts';
import { CliError } from './errors.ts';
import { elapsed, type Style, styler } from './output.ts';

/** A step of a longer operation. */
export interface Step {
  /** Replaces the message of the step. */
  update(message: string): void;
  /** It succeeded. */
  done(message?: string): void;
  /** It failed; the error is printed elsewhere. */
  fail(message?: string): void;
}

interface StepOptions {
  /** Where nothing can be overwritten, `update` writes at most one line in that time. Default: each change once. */
  lineMs?: number;
}

/** Shows the user how a longer operation proceeds; several steps may run at once. */
export interface Progress {
  step(title: string, options?: StepOptions): Step;
  /** Prints a line that stays. */
  note(message: string): void;
  /** Ends drawing. */
  close(): void;
}

/** Runs `work` as one step. */
export async function withStep<T>(
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
    step.fail(error instanceof CliError && error.code === 'Interrupted' ? 'interrupted' : undefined);
    throw error;
  }
}

/** How often a message is printed that repeats, or that differs in its numbers only. Milliseconds. */
const repeatMs = 10_000;

/** Progress as lines for a file: each change once, nothing overwritten. */
export class PlainProgress implements Progress {
  readonly #output: Output;
  readonly #clock: Pick<Clock, 'monotonic'>;

  constructor(output: Output, clock: Pick<Clock, 'monotonic'>) {
    this.#output = output;
    this.#clock = clock;
  }

  step(title: string, { lineMs }: StepOptions = {}): Step {
    const start = this.#clock.monotonic();
    const printedAt = new Map<string, number>();
    const line = (text: string): void => {
      this.#output.write(`${title}: ${text} (${elapsed(this.#clock.monotonic() - start)})\n`);
    };
    this.#output.write(`${title} ...\n`);
    return {
      update: (message) => {
        const shape = lineMs === undefined ? message.replaceAll(/[\d.]+/g, '#') : '';
        const now = this.#clock.monotonic();
        if (now - (printedAt.get(shape) ?? Number.NEGATIVE_INFINITY) < (lineMs ?? repeatMs)) return;
        printedAt.set(shape, now);
        line(message);
      },
      done: (message) => line(message ?? 'done'),
      fail: (message) => line(message ?? 'failed'),
    };
  }

  note(message: string): void {
    this.#output.write(`${message}\n`);
  }

  close(): void {}
}

const frames = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
const frameMs = 120;
const clearBelow = '\u001b[0J';
const hideCursor = '\u001b[?25l';
const showCursor = '\u001b[?25h';

interface Active {
  title: string;
  message: string;
  start: number;
}

/** Progress on a terminal: a line for each running step, redrawn in place; lines of ended steps stay above. */
export class TerminalProgress implements Progress {
  readonly #output: Output;
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #style: (style: Style, text: string) => string;
  readonly #active = new Set<Active>();
  #drawn = 0;
  #frame = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(output: Output & NodeJS.WritableStream, clock: Pick<Clock, 'monotonic'>) {
    this.#output = output;
    this.#clock = clock;
    this.#style = styler(output);
  }

  step(title: string): Step {
    const step: Active = { title, message: '', start: this.#clock.monotonic() };
    this.#active.add(step);
    this.#timer ??= setInterval(() => this.#tick(), frameMs).unref();
    this.#draw();
    const end = (mark: string, message: string | undefined): void => {
      if (!this.#active.delete(step)) return;
      const details = [message, this.#elapsed(step)].filter((part) => part).join(', ');
      this.#print(`${mark} ${title} ${this.#style('dim', details)}`);
    };
    return {
      update: (message) => {
        step.message = message;
      },
      done: (message) => end(this.#style('green', '✔'), message),
      fail: (message) => end(this.#style('red', '✖'), message),
    };
  }

  note(message: string): void {
    this.#print(message);
  }

  close(): void {
    this.#active.clear();
    this.#print('');
  }

  #tick(): void {
    this.#frame = (this.#frame + 1) % frames.length;
    this.#draw();
  }

  /** Prints above the lines of running steps. An empty text prints nothing. */
  #print(text: string): void {
    this.#output.write(`${this.#upToFirst()}${text === '' ? '' : `${text}\n`}`);
    this.#drawn = 0;
    if (this.#active.size > 0) {
      this.#draw();
      return;
    }
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#output.write(showCursor);
  }

  #draw(): void {
    const lines = [...this.#active].map((step) => this.#line(step));
    this.#output.write(`${hideCursor}${this.#upToFirst()}${lines.map((line) => `${line}\n`).join('')}`);
    this.#drawn = lines.length;
  }

  #upToFirst(): string {
    return `${this.#drawn > 0 ? `\u001b[${this.#drawn}A` : ''}\r${clearBelow}`;
  }

  // A wrapped line would count as one and be redrawn at the wrong place.
  #line(step: Active): string {
    const room = Math.max(20, (this.#output.columns ?? 80) - 1);
    const time = ` ${this.#elapsed(step)}`;
    const plain = `  ${step.title}${step.message === '' ? '' : `: ${stripVTControlCharacters(step.message).replaceAll('\n', ' ')}`}`;
    const text = plain.length + time.length <= room ? plain : `${plain.slice(0, room - time.length - 1)}…`;
    return `${this.#style('cyan', frames[this.#frame] ?? '')}${text.slice(1)}${this.#style('dim', time)}`;
  }

  #elapsed(step: Active): string {
    return elapsed(this.#clock.monotonic() - step.start);
  }
}

/** Redrawn lines for a terminal, plain lines otherwise. */
export function progressFor({ stderr, clock, env }: Pick<Cli, 'stderr' | 'clock' | 'env'>): Progress {
  const canRedraw = stderr.isTTY === true && env['TERM'] !== 'dumb';
  return canRedraw ? new TerminalProgress(stderr, clock) : new PlainProgress(stderr, clock);
}

/** Runs `work` with progress on stderr. */
export async function withProgress<T>(
  cli: Pick<Cli, 'stderr' | 'clock' | 'env'>,
  work: (progress: Progress) => Promise<T>,
): Promise<T> {
  const progress = progressFor(cli);
  try {
    return await work(progress);
  } finally {
    progress.close();
  }
}
