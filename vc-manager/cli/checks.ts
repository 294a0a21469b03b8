/** Result of one check of a machine or a cluster. */
export interface CheckResult {
  name: string;
  /** `missing`: it cannot work. `warn`: it may fail under some conditions. */
  state: 'ok' | 'warn' | 'missing';
  detail: string;
  /** What to do; only when not ok. */
  remedy?: string;
}

export function ok(name: string, detail: string): CheckResult {
  return { name, state: 'ok', detail };
}

export function warn(name: string, detail: string, remedy: string): CheckResult {
  return { name, state: 'warn', detail, remedy };
}

export function missing(name: string, detail: string, remedy: string): CheckResult {
  return { name, state: 'missing', detail, remedy };
}
