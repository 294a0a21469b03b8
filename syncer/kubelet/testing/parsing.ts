import { vi } from 'vitest';

/** What is parsed of requests, until disposed of. */
export class Parsing implements Disposable {
  /** Numbers of parameters of queries, in the order in which they are parsed. */
  readonly queries: number[] = [];
  /** How many pieces of text are decoded. */
  decoded = 0;

  constructor() {
    const { queries } = this;
    const decode = globalThis.decodeURIComponent;
    vi.stubGlobal(
      'URLSearchParams',
      class extends URLSearchParams {
        constructor(init?: ConstructorParameters<typeof URLSearchParams>[0]) {
          if (typeof init === 'string') queries.push(init.split('&').length);
          super(init);
        }
      },
    );
    vi.stubGlobal('decodeURIComponent', (text: string) => {
      this.decoded += 1;
      return decode(text);
    });
  }

  [Symbol.dispose](): void {
    vi.unstubAllGlobals();
  }
}
