/** Powers that suffixes of quantities stand for. */
const suffixes: Readonly<Record<string, number>> = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  '': 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
};

/** A quantity as a number of whole units; undefined for what is none. */
export function parseQuantity(text: string | undefined): number | undefined {
  const match = /^([+-]?[0-9.]+)(?:([eE][+-]?[0-9]+)|([numkMGTPE]|[KMGTPE]i)?)$/.exec(text ?? '');
  if (match === null) return undefined;
  const [, digits = '', exponent = '', suffix = ''] = match;
  const value = Number(digits + exponent) * (suffixes[suffix] ?? Number.NaN);
  return Number.isFinite(value) ? value : undefined;
}

export function cpuQuantity(nanoCores: number): string {
  return nanoCores <= 0 ? '0' : `${Math.round(nanoCores)}n`;
}

export function memoryQuantity(bytes: number): string {
  return bytes <= 0 ? '0' : `${Math.round(bytes / 1024)}Ki`;
}
