import { describe, expect, it } from 'vitest';
import { eventName, eventResourceVersion, eventType, isReadyPod, LineSplitter, valueAfter } from './watch.ts';

function event(type: string, object: object): Buffer {
  return Buffer.from(JSON.stringify({ type, object }));
}

function pod(conditions: object[], annotations: Record<string, string> = {}): object {
  return {
    kind: 'Pod',
    apiVersion: 'v1',
    metadata: {
      name: 'web-1',
      namespace: 'shop',
      resourceVersion: '42',
      annotations,
      managedFields: [{ fieldsV1: { 'f:status': { 'k:{"type":"Ready"}': { 'f:status': {} } } } }],
    },
    spec: { containers: [{ name: 'main' }] },
    status: { conditions },
  };
}

const ready = { type: 'Ready', observedGeneration: 1, status: 'True' };
const notReady = { type: 'Ready', observedGeneration: 1, status: 'False', reason: 'ContainersNotReady' };
const scheduled = { type: 'PodScheduled', status: 'True' };

describe('what is searched for in the bytes of an event', () => {
  it('is what parsing it would tell', () => {
    const line = event('MODIFIED', pod([scheduled, ready]));
    expect(eventType(line)).toBe('MODIFIED');
    expect(eventName(line)).toBe('web-1');
    expect(eventResourceVersion(line)).toBe('42');
    expect(isReadyPod(line)).toBe(true);
  });

  it('knows all types of events, and what is none', () => {
    const types = ['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK', 'ERROR'];
    expect(types.map((type) => eventType(event(type, {})))).toEqual(types);
    expect(eventType(Buffer.from('404 page not found'))).toBeUndefined();
    expect(eventType(Buffer.from('{}'))).toBeUndefined();
  });

  it('finds a pod not Ready whose condition says so, or that has none', () => {
    expect(isReadyPod(event('ADDED', pod([notReady, scheduled])))).toBe(false);
    expect(isReadyPod(event('ADDED', pod([scheduled])))).toBe(false);
    expect(isReadyPod(event('ADDED', pod([{ type: 'PodReadyToStartContainers', status: 'True' }])))).toBe(
      false,
    );
  });

  it('takes no text of a user for a field', () => {
    const text = '"type":"Ready","status":"True"';
    expect(isReadyPod(event('ADDED', pod([scheduled], { note: text })))).toBe(false);
    const named = event('ADDED', pod([], { note: '"metadata":{"name":"other"' }));
    expect(eventName(named)).toBe('web-1');
  });

  it('is undefined where it is not', () => {
    expect(eventName(Buffer.from('{"type":"ERROR","object":{"kind":"Status"}}'))).toBeUndefined();
    expect(valueAfter(Buffer.from('"key":"unended'), Buffer.from('"key":"'))).toBeUndefined();
  });
});

describe('lines of a stream', () => {
  it('are the same however the stream is cut', () => {
    const text = 'first\nsécond line\n\nthird\n';
    const bytes = Buffer.from(text);
    for (let size = 1; size <= bytes.length; size++) {
      const lines: string[] = [];
      const splitter = new LineSplitter();
      for (let at = 0; at < bytes.length; at += size) {
        splitter.push(bytes.subarray(at, at + size), (line) => lines.push(line.toString()));
      }
      expect(lines).toEqual(['first', 'sécond line', 'third']);
    }
  });
});
