import type { StatusCause } from '../errors.ts';
import type { RequestInfo } from './request-path.ts';

/** What can go wrong with one request. */
export type Fault =
  /** An answer that refuses. With `text`, the body is that instead of a Status. */
  | {
      kind: 'status';
      code: number;
      reason?: string;
      message?: string;
      retryAfterSeconds?: number;
      causes?: StatusCause[];
      text?: string;
    }
  /** The connection is cut before the answer. */
  | { kind: 'reset' }
  /** The answer is cut half-way, with the connection. */
  | { kind: 'reset-in-body' }
  /** The answer stops half-way as if it were complete. */
  | { kind: 'half-body' }
  /** No answer, ever. */
  | { kind: 'hang' }
  /** A watch that starts well and sends only this ERROR event. */
  | { kind: 'error-event'; code: number; reason: string; causes?: StatusCause[] }
  /** A watch that ends at once. */
  | { kind: 'end' };

export interface FaultRule {
  fault: Fault;
  /** Absent fields match everything. */
  verb?: RequestInfo['verb'];
  plural?: string;
  name?: string;
  /** True: only requests for a further page. False: only those for a first one. */
  continued?: boolean;
  /** How often; default once. */
  times?: number;
}

/** Rules in the order in which they were given; the first that matches is used up by one. */
export class Faults {
  #rules: (FaultRule & { left: number })[] = [];

  add(rule: FaultRule): () => void {
    const entry = { ...rule, left: rule.times ?? 1 };
    this.#rules.push(entry);
    return () => {
      this.#rules = this.#rules.filter((each) => each !== entry);
    };
  }

  clear(): void {
    this.#rules = [];
  }

  take(info: RequestInfo): Fault | undefined {
    const rule = this.#rules.find(
      (each) =>
        (each.verb === undefined || each.verb === info.verb) &&
        (each.plural === undefined || each.plural === info.plural) &&
        (each.name === undefined || each.name === info.name) &&
        (each.continued === undefined || each.continued === info.query.has('continue')),
    );
    if (rule === undefined) return undefined;
    rule.left -= 1;
    if (rule.left === 0) this.#rules = this.#rules.filter((each) => each !== rule);
    return rule.fault;
  }
}
