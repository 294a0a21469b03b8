/** Nano-units in one unit: no quantity of Kubernetes is finer. */
export const nano = 1_000_000_000n;

/** What Kubernetes makes of anything larger: the largest 64 bit integer. */
export const largestQuantity = (2n ** 63n - 1n) * nano;

const suffixes: Readonly<Record<string, readonly [base: bigint, exponent: number]>> = {
  n: [10n, -9],
  u: [10n, -6],
  m: [10n, -3],
  '': [10n, 0],
  k: [10n, 3],
  M: [10n, 6],
  G: [10n, 9],
  T: [10n, 12],
  P: [10n, 15],
  E: [10n, 18],
  Ki: [2n, 10],
  Mi: [2n, 20],
  Gi: [2n, 30],
  Ti: [2n, 40],
  Pi: [2n, 50],
  Ei: [2n, 60],
};

const longest = 256;
const shape = /^([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+)|([numkMGTPE]|[KMGTPE]i))?$/;

/**
 * A Kubernetes quantity in nano-units, without loss: what is finer is rounded up and what is larger than
 * `largestQuantity` is that, as Kubernetes does. Undefined for what is none.
 */
export function parseExactQuantity(text: unknown): bigint | undefined {
  if (typeof text !== 'string' && typeof text !== 'number') return undefined;
  const whole = String(text);
  if (whole.length > longestRemembered) return parsed(whole);
  if (remembered.has(whole)) return remembered.get(whole);
  const value = parsed(whole);
  if (remembered.size >= maxRemembered) remembered.clear();
  remembered.set(whole, value);
  return value;
}

/** Most objects ask for the same few amounts. */
const remembered = new Map<string, bigint | undefined>();
const maxRemembered = 2_000;
const longestRemembered = 16;

function parsed(whole: string): bigint | undefined {
  const match = whole.length > longest ? null : shape.exec(whole);
  if (match === null) return undefined;
  const [, sign = '', integer = '', fraction = '', exponent, suffix = ''] = match;
  if (integer === '' && fraction === '') return undefined;
  const digits = BigInt(integer + fraction);
  const value = digits === 0n ? 0n : scaled(digits, fraction.length, exponent, suffix);
  return sign === '-' ? -value : value;
}

function scaled(digits: bigint, decimals: number, exponent: string | undefined, suffix: string): bigint {
  const [base, power] = suffixes[suffix] as readonly [bigint, number];
  const binary = base === 2n ? 2n ** BigInt(power) : 1n;
  const decimal = (exponent === undefined ? (base === 10n ? power : 0) : Number(exponent)) + 9 - decimals;
  // Beyond any quantity, and beyond what could be computed.
  if (decimal > 60) return largestQuantity;
  if (decimal < -2 * longest) return 1n;
  if (decimal >= 0) return atMost(digits * binary * 10n ** BigInt(decimal));
  const divisor = 10n ** BigInt(-decimal);
  return atMost((digits * binary + divisor - 1n) / divisor);
}

function atMost(value: bigint): bigint {
  return value > largestQuantity ? largestQuantity : value;
}

const binarySuffixes = ['Ei', 'Pi', 'Ti', 'Gi', 'Mi', 'Ki'] as const;

/** A quantity as Kubernetes would print it: with a binary suffix where that is exact, else in units or fractions. */
export function formatQuantity(value: bigint): string {
  const units = value / nano;
  const rest = value % nano;
  if (rest !== 0n) {
    for (const [suffix, step] of [
      ['m', 1_000_000n],
      ['u', 1_000n],
    ] as const)
      if (value % step === 0n) return `${value / step}${suffix}`;
    return `${value}n`;
  }
  for (const suffix of binarySuffixes) {
    const [, power] = suffixes[suffix] as readonly [bigint, number];
    const step = 2n ** BigInt(power);
    if (units !== 0n && units % step === 0n) return `${units / step}${suffix}`;
  }
  return String(units);
}

/** A Kubernetes quantity (`1Gi`, `500M`, `1e3`) as a number of whole units; `undefined` when it is none. */
export function parseQuantity(text: string | number | undefined): number | undefined {
  const match = /^([+-]?[0-9.]+)(?:([eE][+-]?[0-9]+)|([numkMGTPE]|[KMGTPE]i)?)$/.exec(String(text ?? ''));
  if (match === null) return undefined;
  const [, digits = '', exponent = '', suffix = ''] = match;
  const [base, power] = suffixes[suffix] as readonly [bigint, number];
  const value = Number(digits + exponent) * (base === 2n ? 2 ** power : Number(`1e${power}`));
  return Number.isFinite(value) ? value : undefined;
}
