/**
 * What the generator wants to know of a watch event, found by searching its bytes: parsing every event
 * whole would cost more than all else that it does. API servers write JSON without blanks and fields in a
 * fixed order; quotes within strings are escaped, so that nothing a user wrote can pass for a field.
 */
export type EventType = 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR';

const typePrefix = Buffer.from('{"type":"');
const quote = 0x22;
const brace = 0x7d;
const types: ReadonlyMap<number, EventType> = new Map(
  (['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK', 'ERROR'] as const).map((type) => [type.charCodeAt(0), type]),
);

const metadata = Buffer.from('"metadata":{');
const name = Buffer.from('"name":"');
const resourceVersion = Buffer.from('"resourceVersion":"');
const conditionReady = Buffer.from('"type":"Ready"');
const statusTrue = Buffer.from('"status":"True"');

/** Undefined: this is no watch event as API servers write them. */
export function eventType(line: Buffer): EventType | undefined {
  if (!line.subarray(0, typePrefix.length).equals(typePrefix)) return undefined;
  return types.get(line[typePrefix.length] ?? 0);
}

export function eventName(line: Buffer): string | undefined {
  return valueAfter(line, name, line.indexOf(metadata));
}

export function eventResourceVersion(line: Buffer): string | undefined {
  return valueAfter(line, resourceVersion, line.indexOf(metadata));
}

/** Whether the pod has a condition `Ready` that is True. */
export function isReadyPod(line: Buffer): boolean {
  const from = line.lastIndexOf(conditionReady);
  if (from === -1) return false;
  const end = line.indexOf(brace, from);
  const found = line.indexOf(statusTrue, from);
  return found !== -1 && found < end;
}

/** The string that follows `key` (as `"key":"`), from an offset on; only for values without escapes. */
export function valueAfter(line: Buffer, key: Buffer, from = 0): string | undefined {
  if (from === -1) return undefined;
  const at = line.indexOf(key, from);
  if (at === -1) return undefined;
  const start = at + key.length;
  const end = line.indexOf(quote, start);
  return end === -1 ? undefined : line.toString('latin1', start, end);
}
