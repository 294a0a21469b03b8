import type { Progress, Step } from '../progress/index.ts';
import type { Message } from './detach.ts';

/** Tells a progress to our log and, as long as it listens, to the process that started us. */
export class RelayedProgress implements Progress {
  readonly #log: Progress;
  readonly #send: (message: Message) => void;
  #lastId = 0;

  constructor(log: Progress, send: (message: Message) => void) {
    this.#log = log;
    this.#send = send;
  }

  step(title: string): Step {
    const id = ++this.#lastId;
    const logged = this.#log.step(title);
    this.#send({ type: 'step', id, title });
    const end = (type: 'done' | 'fail') => (message?: string) => {
      logged[type](message);
      this.#send({ type, id, ...(message === undefined ? {} : { message }) });
    };
    return {
      tell: (message) => {
        logged.tell(message);
        this.#send({ type: 'tell', id, message });
      },
      done: end('done'),
      fail: end('fail'),
    };
  }

  note(message: string): void {
    this.#log.note(message);
    this.#send({ type: 'note', message });
  }

  close(): void {
    this.#log.close();
  }
}

/** Sends to the process that started us; quietly nothing when it is gone. */
export function sendToStarter(message: Message): void {
  if (process.connected) process.send?.(message, undefined, undefined, () => undefined);
}
