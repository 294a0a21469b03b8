import { stripVTControlCharacters } from 'node:util';
import type { Clock } from '../../../kube/index.ts';
import type { Output } from '../context.ts';
import { type Style, styler } from '../output/style.ts';
import { elapsed } from '../output/time.ts';
import type { Progress, Step } from './progress.ts';

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
      tell: (message) => {
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
