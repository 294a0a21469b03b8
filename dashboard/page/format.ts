/** `45 s`, `14 min`, `5 h`, `12 d`. */
export function duration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1_000));
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 120) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h` : `${Math.floor(hours / 24)} d`;
}

export function since(timestamp: string | undefined): string {
  const then = Date.parse(timestamp ?? '');
  return Number.isNaN(then) ? '–' : duration(Date.now() - then);
}

/** `in 12 d`, `3 h ago`. */
export function relative(timestamp: string | undefined): string {
  const then = Date.parse(timestamp ?? '');
  if (Number.isNaN(then)) return '–';
  const ms = then - Date.now();
  return ms > 0 ? `in ${duration(ms)}` : `${duration(-ms)} ago`;
}

/** `3.4 ms`, `120 ms`, `3.20 s`. */
export function milliseconds(ms: number | undefined): string {
  if (ms === undefined) return '–';
  if (ms < 100) return `${ms.toFixed(1)} ms`;
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(ms < 10_000 ? 2 : 1)} s`;
}

export function percent(share: number | undefined): string {
  if (share === undefined) return '–';
  return share > 0 && share < 0.01 ? '< 1 %' : `${Math.round(100 * share)} %`;
}

export function bytes(count: number | undefined): string {
  if (count === undefined) return '–';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let value = count;
  let unit = 0;
  while (value >= 1_024 && unit < units.length - 1) {
    value /= 1_024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

const factors: Readonly<Record<string, number>> = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  '': 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
};

const inBytes = /memory|storage|bytes/;

/** What a quantity as Kubernetes writes it counts; NaN for what is none. */
function numberIn(text: string): number {
  const [, digits = '', unit = ''] = /^([\d.]+)([a-zA-Z]*)$/.exec(text) ?? [];
  return digits === '' ? Number.NaN : Number(digits) * (factors[unit] ?? Number.NaN);
}

/** To order by: what is not known comes before all that is. */
export function sortValue(text: string | undefined): number {
  const value = numberIn(text ?? '');
  return Number.isNaN(value) ? -1 : value;
}

/** A quantity as Kubernetes writes it, for people: of what is measured in bytes, in the largest unit that fits. */
export function quantity(resource: string, text: string | undefined): string {
  if (text === undefined) return '–';
  const value = numberIn(text);
  if (Number.isNaN(value)) return text;
  if (inBytes.test(resource)) return bytes(value);
  if (/cpu/.test(resource)) return value >= 10 ? value.toFixed(0) : String(Number(value.toFixed(2)));
  return value.toLocaleString('en');
}

const name = '[a-z0-9][-.a-z0-9]{0,252}';
const harmless = new RegExp(
  [
    `vc-manager jobs retry ${name}(?: -n ${name})?(?![^\\s"':,)])`,
    `vc-manager (?:describe|events|jobs|kubeconfig|logs|quota|wake) ${name}(?: -n ${name})?(?: > ${name})?(?![^\\s"':,)])`,
    `kubectl annotate --overwrite virtualcluster ${name} -n ${name} skerry\\.dev/(?:confirm-deletions|accept-identity)=[-\\w]{1,128}(?:@\\d{1,32})?(?=$|\\. )`,
  ].join('|'),
  'g',
);

/**
 * A text in parts, of which those that are commands can be copied: such as Skerry itself names and that do no harm, as texts
 * may repeat what the API server of a tenant has said.
 */
export function withCommands(text: string): { readonly text: string; readonly isCommand: boolean }[] {
  const parts: { text: string; isCommand: boolean }[] = [];
  const add = (part: string, isCommand: boolean): void => {
    if (part !== '') parts.push({ text: part, isCommand });
  };
  let end = 0;
  for (const { 0: command, index } of text.matchAll(harmless)) {
    add(text.slice(end, index), false);
    add(command, true);
    end = index + command.length;
  }
  add(text.slice(end), false);
  return parts;
}

/** Of whatever was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
