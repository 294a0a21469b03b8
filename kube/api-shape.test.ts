import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { shapeProblems } from './api-shape.ts';

const pod = (spec: unknown, options: object = {}) =>
  shapeProblems(spec, 'PodSpec', { path: 'spec', ...options });

describe('the shape of a value', () => {
  it('is that of the table, down to what is nested deepest', () => {
    const spec = {
      containers: [
        {
          name: 'main',
          ports: [{ containerPort: 80 }],
          livenessProbe: { httpGet: { port: 'http', httpHeaders: [{ name: 'a', value: 'b' }] } },
          resources: { limits: { cpu: '1', memory: 1000 } },
        },
      ],
      nodeSelector: { disk: 'ssd' },
      affinity: {
        podAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [{ topologyKey: 'zone' }] },
      },
    };
    expect(pod(spec)).toEqual([]);
    expect(
      pod({ ...spec, containers: [{ name: 'main', livenessProbe: { httpGet: { port: 1.5 } } }] }),
    ).toEqual([{ is: 'type', path: 'spec.containers[0].livenessProbe.httpGet.port' }]);
  });

  it.each([
    ['a field that the table does not have', { hostRoot: true }, 'unknown', 'spec.hostRoot'],
    ['one that every object inherits', { constructor: {} }, 'unknown', 'spec.constructor'],
    ['a prototype', JSON.parse('{"__proto__": {"hostPID": true}}'), 'unknown', 'spec.__proto__'],
    ['a null', { hostname: null }, 'null', 'spec.hostname'],
    ['a null in a list', { containers: [null] }, 'type', 'spec.containers[0]'],
    ['a text for a list', { containers: 'none' }, 'type', 'spec.containers'],
    ['a list for an object', { affinity: [] }, 'type', 'spec.affinity'],
    ['a number in a map of texts', { nodeSelector: { a: 1 } }, 'type', 'spec.nodeSelector[a]'],
    ['a name that a terminal would act on', { 'a\u001b[2J': 1 }, 'unknown', 'spec.a?[2J'],
  ])('%s is a problem', (_what, spec, is, path) => {
    expect(pod(spec)).toEqual([{ is, path }]);
  });

  it('of a patch may take a field away, but nothing in a list', () => {
    expect(pod({ hostname: null, containers: [{ name: 'a', image: null }] }, { isPatch: true })).toEqual([
      { is: 'null', path: 'spec.containers[0].image' },
    ]);
  });

  it('is none of our affair where it is there already', () => {
    const present = { containers: [{ name: 'injected', newField: 1 }], another: {} };
    expect(pod({ ...present, containers: [{ name: 'main' }, ...present.containers] }, { present })).toEqual(
      [],
    );
    expect(pod({ containers: [{ name: 'injected', newField: 2 }] }, { present })).toEqual([
      { is: 'unknown', path: 'spec.containers[0].newField' },
    ]);
  });

  it('is looked through up to a size, and few problems are told', () => {
    const env = Array.from({ length: 10_000 }, () => ({ name: 'A', value: 'b' }));
    const containers = Array.from({ length: 20 }, () => ({ name: 'main', env }));
    expect(pod({ containers })).toEqual([
      { is: 'size', path: expect.stringMatching(/^spec\.containers\[\d+\]\.env/) },
    ]);
    expect(pod({ containers: env.map(() => 1) }).length).toBeLessThan(10);
  });

  it('has no list of more than 10,000 objects', () => {
    const tolerations = Array.from({ length: 10_000 }, (_, index) => ({ key: `key-${index}` }));
    expect(pod({ tolerations })).toEqual([]);
    expect(pod({ tolerations: [...tolerations, {}] })).toEqual([{ is: 'size', path: 'spec.tolerations' }]);
    const args = Array.from({ length: 100_000 }, () => 'a');
    expect(pod({ containers: [{ name: 'main', args }] })).toEqual([]);
  });

  it('can be asked for of any JSON', () => {
    fc.assert(fc.property(fc.jsonValue({ maxDepth: 5 }), (value) => Array.isArray(pod(value))));
  });
});
