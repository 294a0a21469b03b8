import { describe, expect, it } from 'vitest';
import { isPortRangeListed, isRepositoryListed, isTaintKeyListed, repositoryOf } from './policy-lists.ts';

describe('repositoryOf', () => {
  const digest = `sha256:${'a'.repeat(64)}`;
  it.each([
    ['nginx', 'docker.io/library/nginx'],
    ['nginx:1.27', 'docker.io/library/nginx'],
    [`nginx@${digest}`, 'docker.io/library/nginx'],
    ['team/app:1', 'docker.io/team/app'],
    ['docker.io/nginx', 'docker.io/library/nginx'],
    ['index.docker.io/team/app', 'docker.io/team/app'],
    ['registry.example.com/app', 'registry.example.com/app'],
    ['registry.example.com:5000/team/app:1', 'registry.example.com:5000/team/app'],
    [`registry.example.com:5000/team/app:1@${digest}`, 'registry.example.com:5000/team/app'],
    ['localhost/app', 'localhost/app'],
    ['box:5000/app', 'box:5000/app'],
    ['Registry.Example.COM/app', 'registry.example.com/app'],
    ['[2001:db8::1]:5000/app', '[2001:db8::1]:5000/app'],
  ])('%s is of %s', (image, repository) => {
    expect(repositoryOf(image)).toBe(repository);
  });

  it.each([
    '',
    '/',
    'registry.example.com/',
    'registry.example.com/team/../other/app',
    'registry.example.com//app',
    'registry.example.com@evil.example/app',
    'good.example/app@evil.example/app',
    'good.example/app:1/../../evil',
    'user:pass@good.example/app',
    'https://good.example/app',
    'app name',
    'ÄPP/x',
    'a'.repeat(5_000),
    null,
    {},
    7,
  ])('%j is no reference', (image) => {
    expect(repositoryOf(image)).toBeUndefined();
  });
});

describe('a list of registries', () => {
  it.each([
    ['registry.example.com', 'registry.example.com/app', true],
    ['registry.example.com/team', 'registry.example.com/team/app', true],
    ['registry.example.com/team', 'registry.example.com/team', true],
    ['docker.io', 'docker.io/library/nginx', true],
    ['Registry.example.com', 'registry.example.com/app', true],
    ['registry.example.com', 'registry.example.com.evil.example/app', false],
    ['registry.example.com', 'registry.example.com:5000/app', false],
    ['registry.example.com/team', 'registry.example.com/teammate/app', false],
    ['docker.io/library', 'docker.io/evil/nginx', false],
  ])('with %s: %s is in it: %s', (listed, repository, expected) => {
    expect(isRepositoryListed(['other.example', listed], repository)).toBe(expected);
  });
});

describe('a list of ports', () => {
  it.each([
    ['8000-8099', '8000', true],
    ['8000-8099', '8000-8099', true],
    ['8000-8099', '8050-8100', false],
    ['8000-8099', '7999', false],
    ['8000-8099', '8099-8000', false],
    ['80', '80', true],
    ['80', 'NaN', false],
  ])('with %s: %s is in it: %s', (listed, range, expected) => {
    expect(isPortRangeListed(['1', listed], range)).toBe(expected);
  });
});

describe('a list of taints', () => {
  it.each([
    ['example.com/pool', 'example.com/pool', true],
    ['example.com/', 'example.com/pool', true],
    ['*', 'example.com/pool', true],
    ['*', 'example.com/', true],
    ['node-role.kubernetes.io/control-plane', 'node-role.kubernetes.io/control-plane', true],
    ['example.com/pool', 'example.com/pools', false],
    ['example.com/', 'example.com.evil/pool', false],
    ['*', 'node-role.kubernetes.io/control-plane', false],
    ['*', 'node-role.kubernetes.io/controlplane', false],
    ['*', 'node-role.kubernetes.io/etcd', false],
    ['*', 'node-role.kubernetes.io/', false],
    ['*', 'CriticalAddonsOnly', false],
    ['*', 'k3s-controlplane', false],
    ['example.com/pool', '*', false],
  ])('with %s: %s is in it: %s', (listed, key, expected) => {
    expect(isTaintKeyListed([listed], key)).toBe(expected);
  });
});
