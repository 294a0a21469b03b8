import { InvalidArgumentError } from 'commander';
import { describe, expect, it } from 'vitest';
import { repeatable } from '../../program/flags.ts';
import {
  duration,
  egressTarget,
  ipAddress,
  kubernetesVersion,
  labelPairs,
  portRange,
  wholeNumber,
} from './arguments.ts';

describe('duration', () => {
  it.each([
    ['90s', 90_000],
    ['5m', 300_000],
    ['1h', 3_600_000],
    ['2m30s', 150_000],
    ['1.5s', 1_500],
    ['250ms', 250],
    ['45', 45_000],
    ['0', 0],
  ])('takes %s', (text, ms) => {
    expect(duration(text)).toBe(ms);
  });

  it.each(['', 'soon', '5 m', '-1s', '5m later', 's', '1d'])('refuses "%s"', (text) => {
    expect(() => duration(text)).toThrow(InvalidArgumentError);
  });
});

describe('wholeNumber', () => {
  it('takes numbers of its range, both ends included', () => {
    expect([1, 1000].map((n) => wholeNumber(1, 1000)(String(n)))).toEqual([1, 1000]);
  });

  it.each(['0', '1001', '1.5', '', 'two', '-1', '1e2', ' 3'])('refuses "%s" and names the range', (text) => {
    expect(() => wholeNumber(1, 1000)(text)).toThrow('Give a whole number from 1 to 1000.');
  });
});

describe('other arguments', () => {
  it('takes Kubernetes versions with or without patch number and v', () => {
    expect(['1.36', 'v1.36.3', '1.9.0'].map(kubernetesVersion)).toEqual(['1.36', '1.36.3', '1.9.0']);
  });

  it.each(['1', '2.0', '1.36.', 'latest', '1.36.3-rc.1'])('refuses the version "%s"', (text) => {
    expect(() => kubernetesVersion(text)).toThrow('such as 1.36 or 1.36.3');
  });

  it('takes addresses of both families, and no names', () => {
    expect(['127.0.0.1', '::1'].map(ipAddress)).toEqual(['127.0.0.1', '::1']);
    expect(() => ipAddress('localhost')).toThrow('Give an IP address');
  });

  it.each([
    ['10.1.2.3/16', { to: '10.1.0.0/16' }],
    ['10.1.0.9:443', { to: '10.1.0.9/32', ports: [443, 443] }],
    ['0.0.0.0/0:8000-8999', { to: '0.0.0.0/0', ports: [8000, 8999] }],
    ['::1', { to: '::1/128' }],
    ['[fd00::7/8]:443', { to: 'fd00::/8', ports: [443, 443] }],
  ])('takes servers as %s', (text, target) => {
    expect(egressTarget(text, [{ to: '192.0.2.1/32' }])).toEqual([{ to: '192.0.2.1/32' }, target]);
  });

  it.each([
    'localhost:443',
    '10.0.0.0/33',
    '10.0.0.1:0',
    '10.0.0.1:9-8',
    '[::1]',
    '',
    '1.2.3.4; flush ruleset',
    'fe80::1%lo',
  ])('takes no servers as "%s"', (text) => {
    expect(() => egressTarget(text)).toThrow(InvalidArgumentError);
  });

  it('takes ranges of ports, the smaller one first', () => {
    expect(portRange('21000-21999')).toEqual({ first: 21_000, last: 21_999 });
    for (const text of ['21999-21000', '0-5', '1-70000', '21000', 'a-b']) {
      expect(() => portRange(text)).toThrow('Give two ports');
    }
  });

  it('takes labels, several at once or one after the other', () => {
    expect(labelPairs('b=2', labelPairs('example.com/a=1,b='))).toEqual({ 'example.com/a': '1', b: '2' });
    for (const text of ['', 'a', '=1', 'a=1,', 'a=1=2']) {
      expect(() => labelPairs(text)).toThrow('Give labels as key=value');
    }
  });

  it('collects what may be given several times', () => {
    expect(repeatable('b', repeatable('a'))).toEqual(['a', 'b']);
  });
});
