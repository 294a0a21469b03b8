/** Round numbers from 0 (or below `from`) to at least `to`, about `count` of them. */
export function linearTicks(to: number, count = 5): number[] {
  if (!(to > 0)) return [0, 1];
  const rough = to / count;
  const magnitude = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5, 10].find((each) => each * magnitude >= rough) ?? 10) * magnitude;
  return Array.from({ length: Math.ceil(to / step - 1e-9) + 1 }, (_, index) => index * step);
}

/** Powers of ten, with 2 and 5 times each where there are few, that enclose both. */
export function logarithmicTicks(from: number, to: number): number[] {
  const first = Math.floor(Math.log10(from) + 1e-9);
  const last = Math.max(first + 1, Math.ceil(Math.log10(to) - 1e-9));
  const factors = last - first <= 3 ? [1, 2, 5] : [1];
  const all = Array.from({ length: last - first }, (_, index) =>
    factors.map((factor) => factor * 10 ** (first + index)),
  ).flat();
  const ticks = [...all, 10 ** last];
  const low = ticks.findLastIndex((tick) => tick <= from * (1 + 1e-9));
  const high = ticks.findIndex((tick) => tick >= to * (1 - 1e-9));
  return ticks.slice(Math.max(0, low), high === -1 ? ticks.length : Math.max(high, low + 1) + 1);
}

export function tickLabel(value: number): string {
  if (Math.abs(value) >= 1000) return value.toLocaleString('en-US', { maximumFractionDigits: 0 });
  return String(Number(value.toPrecision(3)));
}
