/** An age as kubectl writes it: `45s`, `3m12s`, `14m`, `5h20m`, `3d4h`, `90d`. */
export function age(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 120) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 10) return joined(minutes, 'm', seconds % 60, 's');
  if (minutes < 180) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 8) return joined(hours, 'h', minutes % 60, 'm');
  if (hours < 48) return `${hours}h`;
  const days = Math.floor(hours / 24);
  if (days < 8) return joined(days, 'd', hours % 24, 'h');
  return `${days}d`;
}

/** Since the timestamp of an object; `<unknown>` when it has none. */
export function ageSince(timestamp: string | undefined, nowMs: number): string {
  const then = Date.parse(timestamp ?? '');
  return Number.isNaN(then) ? '<unknown>' : age(nowMs - then);
}

/** How long something took: `0.4 s`, `12 s`, `3 min 05 s`. */
export function elapsed(ms: number): string {
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 120) return `${seconds} s`;
  return `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, '0')} s`;
}

function joined(big: number, bigUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${big}${bigUnit}` : `${big}${bigUnit}${small}${smallUnit}`;
}
