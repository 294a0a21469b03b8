/** What one look at this machine has found. */
export interface Finding {
  name: string;
  /** `missing`: the local stack cannot work. `warn`: it may get into trouble. */
  state: 'ok' | 'warn' | 'missing';
  detail: string;
  /** What to do; only when not ok. */
  remedy?: string;
}

export function ok(name: string, detail: string): Finding {
  return { name, state: 'ok', detail };
}

export function warn(name: string, detail: string, remedy: string): Finding {
  return { name, state: 'warn', detail, remedy };
}

export function missing(name: string, detail: string, remedy: string): Finding {
  return { name, state: 'missing', detail, remedy };
}
