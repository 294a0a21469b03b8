import { CodedError, type MemoryHold, type ReadMemory } from '../../kube/index.ts';

/** The reading of an answer or event was ended, because those of all tenants take too much memory. It may be tried again later. */
export class ReadMemoryExceeded extends CodedError<'ReadMemoryExceeded'> {
  override readonly name = 'ReadMemoryExceeded';

  constructor() {
    super(
      'ReadMemoryExceeded',
      'reading this took too much memory at that moment; it is tried again later',
      true,
    );
  }
}

interface Member {
  bytes: number;
  readonly onAborted: () => void;
}

/**
 * How much memory answers and events of all tenants may take that are being read or wait to be parsed. When they take more,
 * the largest of the tenant with the most is ended: nobody waits, which would let those who send slowly hold up others, and
 * one that has little never pays for what another has.
 */
export class SharedReadMemory {
  readonly #limitBytes: number;
  /** Those that take something. */
  readonly #holds = new Set<Hold>();
  #bytes = 0;

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Of one more tenant. `onAborted` is told of each answer or event that is ended. */
  tenant(onAborted: () => void = () => undefined): ReadMemory {
    const member: Member = { bytes: 0, onAborted };
    const takes = (hold: Hold, bytes: number): void => this.#takes(hold, bytes);
    return { hold: (abort) => new Hold(member, abort, takes) };
  }

  #takes(hold: Hold, bytes: number): void {
    this.#set(hold, bytes);
    while (this.#bytes > this.#limitBytes) {
      const largest = [...this.#holds].reduce((a, b) => (isLarger(b, a) ? b : a));
      this.#set(largest, 0);
      largest.end(new ReadMemoryExceeded());
    }
  }

  #set(hold: Hold, bytes: number): void {
    const more = bytes - hold.bytes;
    hold.bytes = bytes;
    hold.member.bytes += more;
    this.#bytes += more;
    if (bytes > 0) this.#holds.add(hold);
    else this.#holds.delete(hold);
  }
}

function isLarger(a: Hold, b: Hold): boolean {
  return a.member === b.member ? a.bytes > b.bytes : a.member.bytes > b.member.bytes;
}

class Hold implements MemoryHold {
  readonly member: Member;
  bytes = 0;
  readonly #abort: (error: Error) => void;
  readonly #takes: (hold: Hold, bytes: number) => void;
  #hasEnded = false;

  constructor(member: Member, abort: (error: Error) => void, takes: (hold: Hold, bytes: number) => void) {
    this.member = member;
    this.#abort = abort;
    this.#takes = takes;
  }

  takes(bytes: number): void {
    if (!this.#hasEnded && bytes !== this.bytes) this.#takes(this, bytes);
  }

  release(): void {
    this.takes(0);
    this.#hasEnded = true;
  }

  end(error: Error): void {
    this.#hasEnded = true;
    this.member.onAborted();
    this.#abort(error);
  }
}
