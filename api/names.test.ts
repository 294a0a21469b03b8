import { describe, expect, it } from 'vitest';
import { idPattern, nameProblem, nameTenant } from './names.ts';

describe('validateName', () => {
  it.each(['a', '1', 'my-name', 'a'.repeat(63)])('accepts %s', (name) => {
    expect(nameProblem(name)).toBeUndefined();
  });

  it.each([
    ['', /required/],
    ['A', /RFC 1123/],
    ['a.b', /RFC 1123/],
    ['-a', /RFC 1123/],
    ['a-', /RFC 1123/],
    ['a\n', /RFC 1123/],
    ['ä', /RFC 1123/],
    ['a'.repeat(64), /no more than 63 characters \(it has 64\)/],
  ])('refuses %j with the reason', (name, reason) => {
    expect(nameProblem(name)).toMatch(reason);
  });
});

describe('idPattern', () => {
  it('keeps an id from leaving its place in paths and keys', () => {
    for (const id of ['abcdef', 'a2b3c4d5e6']) expect(id).toMatch(idPattern);
    for (const id of ['', 'short', 'a/bcdef', '../../etc', 'ABCDEF', 'a'.repeat(21), 'abcdef\n']) {
      expect(id).not.toMatch(idPattern);
    }
  });
});

describe('nameTenant', () => {
  it('has a message name the tenant as people do', () => {
    const named = (message: string) => nameTenant(message, 'abc123', 'teams/blue');
    expect(named('kube-apiserver of abc123 has exited 3 times')).toBe(
      'kube-apiserver of teams/blue has exited 3 times',
    );
    expect(named('Tenant abc123 is not gone')).toBe('Tenant teams/blue is not gone');
    expect(named('keys of control plane abc123')).toBe('keys of control plane teams/blue');
    expect(named('of tenant abc123, of abc123')).toBe('of tenant teams/blue, of teams/blue');
    expect(named('abc123 has no log of a component x')).toBe('teams/blue has no log of a component x');
  });

  it('leaves names that the id is a part of, which objects and files have', () => {
    const message =
      'namespace skerry-tenant-abc123 of abc123-pki holds /stack/abc123/logs, the id abc123 and of abc1234';
    expect(nameTenant(message, 'abc123', 'teams/blue')).toBe(message);
  });
});
