import { describe, expect, it } from 'vitest';
import { type ComponentPlan, startOrder, validatePlan } from './plan.ts';

function component(name: string, changes: Partial<ComponentPlan> = {}): ComponentPlan {
  return {
    name,
    binary: { command: '/bin/true' },
    args: [],
    env: {},
    files: [],
    ports: [],
    dependsOn: [],
    stopTimeoutMs: 1000,
    ...changes,
  };
}

function problem(...components: ComponentPlan[]): string {
  try {
    validatePlan({ id: 'blue', labels: {}, components });
    return '';
  } catch (error) {
    return (error as Error).message;
  }
}

describe('validatePlan', () => {
  it('accepts a plan that can be carried out', () => {
    expect(
      problem(component('a', { files: [{ path: 'x/y.crt', content: '', mode: 0o600 }] }), component('b')),
    ).toBe('');
  });

  it.each(['../x', '/etc/passwd', 'a/../b', '', 'a//b', 'a\\b', './a'])(
    'refuses the file path %j',
    (path) => {
      expect(problem(component('a', { files: [{ path, content: '', mode: 0o600 }] }))).toContain(
        'leaves its directory',
      );
    },
  );

  it('refuses names that are not safe as file names', () => {
    expect(problem(component('../a'))).toContain('DNS label');
    expect(() => validatePlan({ id: '../a', labels: {}, components: [] })).toThrow(/DNS label/);
  });

  it('refuses doubles, unknown dependencies, circles and ports that are claimed twice', () => {
    expect(problem(component('a'), component('a'))).toContain('there twice');
    expect(problem(component('a', { dependsOn: ['b'] }))).toContain('depends on b, which is not there');
    expect(problem(component('a', { dependsOn: ['b'] }), component('b', { dependsOn: ['a'] }))).toContain(
      'circle',
    );
    const ports = [{ name: 'x', port: 1 }];
    expect(problem(component('a', { ports }), component('b', { ports }))).toContain(
      'port 1 is claimed by a and by b',
    );
  });
});

describe('startOrder', () => {
  it('puts each component after what it depends on', () => {
    const components = [
      component('c', { dependsOn: ['b'] }),
      component('b', { dependsOn: ['a', 'absent'] }),
      component('a'),
    ];
    expect(startOrder(components).map((each) => each.name)).toEqual(['a', 'b', 'c']);
  });
});
