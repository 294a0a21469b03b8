const factors: Readonly<Record<string, number>> = {
  '': 1,
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
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

/** A Kubernetes quantity (`1Gi`, `500M`, `1e3`) as a number of whole units; `undefined` when it is none. */
export function parseQuantity(text: string | number | undefined): number | undefined {
  const match = /^([+-]?[0-9.]+)(?:([eE][+-]?[0-9]+)|([numkMGTPE]|[KMGTPE]i)?)$/.exec(String(text ?? ''));
  if (match === null) return undefined;
  const [, digits = '', exponent = '', suffix = ''] = match;
  const value = Number(digits + exponent) * (factors[suffix] ?? Number.NaN);
  return Number.isFinite(value) ? value : undefined;
}
