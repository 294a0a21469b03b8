import { describe, expect, it } from 'vitest';
import { Store, type StoreEvent } from './store.ts';
import type { KubeObject } from './types.ts';

let versions = 0;

function pod(name: string, uid = `uid-${name}`, fields: Record<string, unknown> = {}): KubeObject {
  versions += 1;
  return { metadata: { name, namespace: 'ns', uid, resourceVersion: String(versions) }, ...fields };
}

function recorded(store: Store): string[] {
  const events: string[] = [];
  store.subscribe(({ type, object, watched }: StoreEvent) => {
    events.push(`${type} ${object.metadata.name}/${object.metadata.uid}${watched ? '' : ' by list'}`);
  });
  return events;
}

describe('Store', () => {
  it('takes a list in steps, but for what is missing, which goes in one', () => {
    const store = new Store();
    for (const name of ['a', 'b', 'c', 'd']) store.apply('ADDED', pod(name));
    const events = recorded(store);
    const steps = store.replacing([pod('a'), pod('e')]);
    const sizes = new Set<number>();
    let most = 0;
    for (let heard = 0; steps.next().done !== true; heard = events.length) {
      sizes.add(store.size);
      most = Math.max(most, events.length - heard);
    }
    expect([...sizes]).toEqual([4, 1, 2]);
    expect(most).toBe(1);
    expect(events).toEqual([
      'deleted b/uid-b by list',
      'deleted c/uid-c by list',
      'deleted d/uid-d by list',
      'modified a/uid-a by list',
      'added e/uid-e by list',
    ]);
  });

  it('counts the places of an object in indexes', () => {
    const addresses = (object: KubeObject): string[] => (object['addresses'] as string[]) ?? [];
    const store = new Store({ onGrowth: () => undefined, indexes: { addresses, again: addresses } });
    store.apply('ADDED', pod('a', 'a', { addresses: [] }));
    const without = store.bytes;
    store.apply('MODIFIED', pod('a', 'a', { addresses: Array.from({ length: 1_000 }, (_, n) => String(n)) }));
    expect(store.bytes - without).toBeGreaterThan(2 * 1_000 * 250);
    store.apply('MODIFIED', pod('a', 'a', { addresses: [] }));
    expect(store.bytes).toBe(without);
  });

  it('counts 1 KiB for an object that says next to nothing', () => {
    const store = new Store({ onGrowth: () => undefined });
    store.apply('ADDED', pod('a'));
    expect(store.bytes).toBeGreaterThanOrEqual(1024);
    expect(store.bytes).toBeLessThan(1100);
    store.apply('ADDED', pod('b', 'b', { text: 'x'.repeat(10_000) }));
    expect(store.bytes).toBeGreaterThan(11_000);
    store.replace([]);
    expect(store.bytes).toBe(0);
  });

  it('tells added, modified and deleted apart', () => {
    const store = new Store();
    const events = recorded(store);
    store.apply('ADDED', pod('a'));
    store.apply('MODIFIED', pod('a'));
    store.apply('DELETED', pod('a'));
    expect(events).toEqual(['added a/uid-a', 'modified a/uid-a', 'deleted a/uid-a']);
    expect(store.size).toBe(0);
  });

  it('gives the last state and the state before to those who hear of a deletion', () => {
    const store = new Store();
    const before = pod('a');
    const last = pod('a', 'uid-a', { status: 'last' });
    store.apply('ADDED', before);
    store.subscribe((event) => {
      expect(event).toEqual({ type: 'deleted', object: last, previous: before, watched: true });
    });
    store.apply('DELETED', last);
    expect.assertions(1);
  });

  it('makes another UID under one name a deletion and an addition, in watches and lists', () => {
    const store = new Store();
    const events = recorded(store);
    store.apply('ADDED', pod('a', '1'));
    store.apply('MODIFIED', pod('a', '2'));
    store.replace([pod('a', '3')]);
    expect(events).toEqual([
      'added a/1',
      'deleted a/1',
      'added a/2',
      'deleted a/2 by list',
      'added a/3 by list',
    ]);
  });

  it('does not delete an object because an earlier one of its name was deleted', () => {
    const store = new Store();
    store.apply('ADDED', pod('a', '2'));
    store.apply('DELETED', pod('a', '1'));
    expect(store.get({ namespace: 'ns', name: 'a' })?.metadata.uid).toBe('2');
  });

  it('says nothing about a version that it has', () => {
    const store = new Store();
    const object = pod('a');
    store.apply('ADDED', object);
    const events = recorded(store);
    store.apply('MODIFIED', structuredClone(object));
    store.replace([structuredClone(object)]);
    expect(events).toEqual([]);
    expect(store.get({ namespace: 'ns', name: 'a' })).toBe(object);
  });

  it('takes objects of an equal version anew when the history of the server is another one', () => {
    const store = new Store();
    const object = pod('a');
    store.apply('ADDED', object);
    const events = recorded(store);
    store.replace([{ ...object, other: true }], { versionsMayRepeat: true });
    expect(events).toEqual(['modified a/uid-a by list']);
  });

  it('deletes what a list does not have', () => {
    const store = new Store();
    store.replace([pod('a'), pod('b')]);
    const events = recorded(store);
    store.replace([pod('b')]);
    expect(events).toEqual(['deleted a/uid-a by list', 'modified b/uid-b by list']);
  });

  it('keeps namespaces apart, and objects without one', () => {
    const store = new Store();
    store.apply('ADDED', { metadata: { name: 'x', uid: '1', resourceVersion: '1' } });
    store.apply('ADDED', { metadata: { name: 'x', namespace: 'a', uid: '2', resourceVersion: '2' } });
    expect(store.get({ name: 'x' })?.metadata.uid).toBe('1');
    expect(store.get({ name: 'x', namespace: 'a' })?.metadata.uid).toBe('2');
    expect(store.get({ name: 'x', namespace: 'b' })).toBeUndefined();
  });

  it('finds objects by an index that follows every change', () => {
    const store = new Store({ indexes: { node: (object) => (object['node'] as string[]) ?? [] } });
    const names = (node: string): unknown[] =>
      store.byIndex('node', node).map(({ metadata }) => metadata.name);
    store.apply('ADDED', pod('a', 'a', { node: ['n1'] }));
    store.apply('ADDED', pod('b', 'b', { node: ['n1', 'n2'] }));
    expect(names('n1')).toEqual(['a', 'b']);
    store.apply('MODIFIED', pod('b', 'b', { node: ['n2'] }));
    expect([names('n1'), names('n2')]).toEqual([['a'], ['b']]);
    store.apply('MODIFIED', pod('b', 'b2', { node: ['n3'] }));
    expect([names('n2'), names('n3')]).toEqual([[], ['b']]);
    store.replace([]);
    expect(names('n1')).toEqual([]);
    expect(() => store.byIndex('other', 'x')).toThrow('no index "other"');
  });

  it('returns the current object from an index whose values stayed', () => {
    const store = new Store({ indexes: { all: () => ['all'] } });
    store.apply('ADDED', pod('a'));
    const newer = pod('a');
    store.apply('MODIFIED', newer);
    expect(store.byIndex('all', 'all')).toEqual([newer]);
  });

  it('goes on when a listener throws, and tells of it', () => {
    const errors: unknown[] = [];
    const store = new Store({ onListenerError: (error) => errors.push(error) });
    const boom = new Error('boom');
    store.subscribe(() => {
      throw boom;
    });
    const events = recorded(store);
    store.apply('ADDED', pod('a'));
    expect(events).toEqual(['added a/uid-a']);
    expect(errors).toEqual([boom]);
  });

  it('goes on when an index function throws, and does not find that object by it', () => {
    const errors: unknown[] = [];
    const store = new Store({
      indexes: {
        byLabel: ({ metadata }) => {
          if (metadata.labels === undefined) throw new TypeError('no labels');
          return Object.keys(metadata.labels);
        },
      },
      onListenerError: (error) => errors.push(error),
    });
    const events = recorded(store);
    const labelled = pod('a');
    labelled.metadata.labels = { x: '' };
    store.replace([labelled, pod('b')]);
    store.apply('MODIFIED', pod('a'));
    store.apply('DELETED', pod('b'));
    expect(events).toEqual([
      'added a/uid-a by list',
      'added b/uid-b by list',
      'modified a/uid-a',
      'deleted b/uid-b',
    ]);
    expect(store.byIndex('byLabel', 'x')).toEqual([]);
    expect(errors.length).toBeGreaterThan(0);
  });

  it('stops telling a listener that has unsubscribed, even within an event', () => {
    const store = new Store();
    const heard: string[] = [];
    const stop = store.subscribe(() => {
      heard.push('first');
      stop();
    });
    store.subscribe(() => heard.push('second'));
    store.apply('ADDED', pod('a'));
    store.apply('ADDED', pod('b'));
    expect(heard).toEqual(['first', 'second', 'second']);
  });

  it('keeps what transform returns', () => {
    const store = new Store({
      transform: (object) => {
        delete object['managed'];
        return object;
      },
    });
    store.replace([pod('a', 'a', { managed: 1, unknown: 2 })]);
    expect(store.get({ namespace: 'ns', name: 'a' })).toMatchObject({ unknown: 2 });
    expect(store.get({ namespace: 'ns', name: 'a' })).not.toHaveProperty('managed');
  });
});
