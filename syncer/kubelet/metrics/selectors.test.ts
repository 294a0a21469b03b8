import { describe, expect, it } from 'vitest';
import { parseQuantity } from '../../../kube/index.ts';
import { labelSelector, SelectorError } from './selectors.ts';

const web = { metadata: { labels: { app: 'web', 'example.com/tier': 'front', size: '5', empty: '' } } };

describe('a label selector', () => {
  it.each([
    ['', true],
    ['app=web', true],
    ['app==web,size=5', true],
    ['app=db', false],
    ['app!=db', true],
    ['app != web', false],
    ['other!=x', true],
    ['app in (db, web)', true],
    ['app in (db)', false],
    ['app notin (db)', true],
    ['other notin (db)', true],
    ['app in (db,web),example.com/tier=front', true],
    ['example.com/tier', true],
    ['!example.com/tier', false],
    ['!constructor', true],
    ['other', false],
    ['empty=', true],
    ['size>4', true],
    ['size > 5', false],
    ['size<6', true],
    ['app>1', false],
  ])('%s: %s', (text, matches) => {
    expect(labelSelector(text)(web)).toBe(matches);
  });

  it.each(['a b', 'a in b', '=x', 'a=b=c', 'a in (', '(a)'])('%s is none', (text) => {
    expect(() => labelSelector(text)).toThrow(SelectorError);
  });
});

describe('a quantity', () => {
  it.each([
    ['0', 0],
    ['250m', 0.25],
    ['1234567n', 0.001234567],
    ['12u', 0.000012],
    ['2', 2],
    ['1.5', 1.5],
    ['64Ki', 65_536],
    ['1Gi', 2 ** 30],
    ['3k', 3000],
    ['1e3', 1000],
    ['2E', 2e18],
  ])('%s is %d', (text, value) => {
    expect(parseQuantity(text)).toBeCloseTo(value, 12);
  });

  it.each(['', 'x', '1x', '1.2.3', 'Ki', undefined])('%s is none', (text) => {
    expect(parseQuantity(text)).toBeUndefined();
  });
});
