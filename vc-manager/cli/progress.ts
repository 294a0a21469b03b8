import { stripVTControlCharacters } from 'node:util';
import type { Clock } from '../../kube/index.ts';
import type { Cli, Output } from './context.ts';
import { elapsed, type Style, styler } from './output.ts';

/** Something that takes a while, while it goes on. */
export interface Step {
  /** What it does at the moment; replaces what it said before. */
  update(message: string): void;
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
    step.fail();
    throw error;
  }
}

/** A message that comes again, or with other numbers only, is told this often. */
const repeatMs = 10_000;

/** Progress as lines that can be read in a file: each change once, nothing overwritten. */
export class PlainProgress implements Progress {
  readonly #output: Output;
  readonly #clock: Pick<Clock, 'monotonic'>;

  constructor(output: Output, clock: Pick<Clock, 'monotonic'>) {
    this.#output = output;
    this.#clock = clock;
  }

  step(title: string): Step {
    const start = this.#clock.monotonic();
    const told = new Map<string, number>();
    const line = (text: string): void => {
      this.#output.write(`${title}: ${text} (${elapsed(this.#clock.monotonic() - start)})\n`);
    };
    this.#output.write(`${title} ...\n`);
    return {
      update: (message) => {
        const shape = message.replaceAll(/[\d.]+/g, '#');
        const now = this.#clock.monotonic();
        if (now - (told.get(shape) ?? Number.NEGATIVE_INFINITY) < repeatMs) return;
        told.set(shape, now);
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

/** Progress on a terminal: a line for each step that goes on, redrawn in place; those that ended move up and stay. */
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

  /** Above the live lines. An empty text prints nothing. */
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

  // A line that wraps would be two, and be drawn over the wrong one next time.
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

/** Fit for where stderr goes. */
export function progressFor({ stderr, clock, env }: Pick<Cli, 'stderr' | 'clock' | 'env'>): Progress {
  const canRedraw = stderr.isTTY === true && env['TERM'] !== 'dumb';
  return canRedraw ? new TerminalProgress(stderr, clock) : new PlainProgress(stderr, clock);
}
