import type { AddOptions, Outcome, Priority } from '../options.ts';

interface Waiting {
  form: number;
  dueAt: number;
  priority: Priority;
  /** Why it is not run before dueAt. */
  because: 'requested' | 'failure' | 'refusal' | 'release';
}

interface Known {
  waiting: Waiting | undefined;
  running: { again: (AddOptions & { at: number; form: number }) | undefined; orphan: boolean } | undefined;
  failures: number;
  refused: string | undefined;
  releasedAt: number;
}

interface ReferenceTimes {
  baseMs: number;
  maxMs: number;
  releaseEveryMs: number;
}

/**
 * What a fair queue promises about single items, in the plainest way: a table, no order, no limits.
 * It says which items may be taken; which of them is, it leaves to the queue.
 */
export class ReferenceQueue {
  readonly #times: ReferenceTimes;
  #items = new Map<string, Known>();

  constructor(times: ReferenceTimes) {
    this.#times = times;
  }

  /** All that may run now, with the form in which they must be handed out. */
  takeable(now: number): Map<string, number> {
    const all = [...this.#items].flatMap(([name, { waiting }]) =>
      waiting !== undefined && waiting.dueAt <= now ? [[name, waiting.form] as const] : [],
    );
    return new Map(all);
  }

  running(): string[] {
    return [...this.#items].filter(([, known]) => known.running !== undefined).map(([name]) => name);
  }

  waiting(): number {
    return [...this.#items.values()].filter((known) => known.waiting !== undefined).length;
  }

  nextDueAt(now: number): number | undefined {
    const times = [...this.#items.values()].flatMap(({ waiting }) => (waiting ? [waiting.dueAt] : []));
    const later = times.filter((time) => time > now);
    return later.length === 0 ? undefined : Math.min(...later);
  }

  add(name: string, form: number, options: AddOptions, now: number): void {
    const known = this.#items.get(name) ?? this.#create(name);
    const at = now + (options.afterMs ?? 0);
    if (known.running !== undefined) {
      const before = known.running.again;
      const version = options.version ?? before?.version;
      known.running.again = {
        form,
        at: Math.min(at, before?.at ?? at),
        priority: before?.priority === 'live' ? 'live' : (options.priority ?? 'live'),
        ...(version !== undefined && { version }),
      };
    } else {
      this.#merge(known, form, at, options, now);
    }
  }

  take(name: string, now: number): void {
    const known = this.#items.get(name) as Known;
    if (known.waiting?.because === 'release') known.releasedAt = now;
    known.waiting = undefined;
    known.running = { again: undefined, orphan: false };
  }

  done(name: string, form: number, outcome: Outcome, now: number): void {
    const known = this.#items.get(name) as Known;
    const { again, orphan } = known.running as NonNullable<Known['running']>;
    known.running = undefined;
    known.refused = undefined;
    if (orphan || outcome.action !== 'backoff') known.failures = 0;
    if (!orphan && outcome.action === 'later') {
      known.waiting = { form, dueAt: now + outcome.afterMs, priority: 'live', because: 'requested' };
    }
    if (!orphan && outcome.action === 'backoff') {
      known.failures += 1;
      known.refused = outcome.refusedVersion;
      const delay = Math.min(this.#times.maxMs, this.#times.baseMs * 2 ** (known.failures - 1));
      const because = known.refused === undefined ? 'failure' : 'refusal';
      known.waiting = { form, dueAt: now + delay, priority: 'live', because };
    }
    if (again !== undefined) this.#merge(known, again.form, again.at, again, now);
    if (known.waiting === undefined) this.#items.delete(name);
  }

  removeTenant(tenant: string): void {
    for (const [name, known] of this.#items) {
      if (!name.startsWith(`${tenant}/`)) continue;
      known.waiting = undefined;
      if (known.running === undefined) this.#items.delete(name);
      else Object.assign(known, { running: { again: undefined, orphan: true }, releasedAt: -1e9 });
    }
  }

  #merge(known: Known, form: number, at: number, options: AddOptions, now: number): void {
    const { waiting } = known;
    const priority = options.priority ?? 'live';
    if (waiting === undefined) {
      known.waiting = { form, dueAt: at, priority, because: 'requested' };
      return;
    }
    waiting.form = form;
    if (waiting.dueAt <= now) return;
    const earliest = Math.max(at, known.releasedAt + this.#times.releaseEveryMs);
    if (waiting.because === 'refusal' && options.version !== undefined && options.version !== known.refused) {
      waiting.because = 'release';
    }
    if (waiting.because === 'release') waiting.dueAt = Math.min(waiting.dueAt, earliest);
    if (waiting.because === 'requested') waiting.dueAt = Math.min(waiting.dueAt, at);
    if (waiting.because === 'failure' && priority === 'live') waiting.dueAt = Math.min(waiting.dueAt, at);
  }

  #create(name: string): Known {
    const known: Known = {
      waiting: undefined,
      running: undefined,
      failures: 0,
      refused: undefined,
      releasedAt: -1e9,
    };
    this.#items.set(name, known);
    return known;
  }
}
