import { expect, it } from 'vitest';
import { collectionPath, objectPath } from './request.ts';
import { resources } from './resources.ts';

it.each(['', '.', '..'])('%j names no object, nor a namespace: it would name another resource', (name) => {
  expect(() => objectPath(resources.pods, { namespace: 'shop', name })).toThrow("is no object's name");
  expect(() => collectionPath(resources.pods, name)).toThrow("is no object's name");
});

it('a name is one segment of the path, whatever is in it', () => {
  const path = objectPath(resources.pods, { namespace: 'shop', name: '../web?a#b' }, 'status');
  expect(path).toBe('/api/v1/namespaces/shop/pods/..%2Fweb%3Fa%23b/status');
});

it('an object of a namespace is not asked for without it', () => {
  expect(() => objectPath(resources.pods, { name: 'web' })).toThrow('named without its namespace');
});
