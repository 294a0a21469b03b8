import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { withoutManagedFields } from './managed-fields.ts';

const entry = {
  manager: 'kubelet "x" ]}',
  operation: 'Update',
  fieldsV1: { 'f:spec': { 'k:{"name":"a]"}': { '.': {}, 'f:env': { 'v:["\\"]': {} } } } },
};

function cut(object: unknown): unknown {
  return JSON.parse(withoutManagedFields(JSON.stringify(object)));
}

describe('withoutManagedFields', () => {
  it('leaves everything else as it is, wherever the field stands', () => {
    for (const metadata of [
      { name: 'a', managedFields: [entry] },
      { managedFields: [entry, entry], name: 'a' },
      { name: 'a', managedFields: [], uid: 'u' },
      { managedFields: [entry] },
    ]) {
      const { managedFields: _cut, ...rest } = metadata;
      expect(cut({ metadata, spec: { b: [1] } })).toEqual({ metadata: rest, spec: { b: [1] } });
    }
  });

  it('cuts it from every item of a list', () => {
    const item = (name: string) => ({ metadata: { name, managedFields: [entry] } });
    expect(cut({ items: [item('a'), item('b')] })).toEqual({
      items: [{ metadata: { name: 'a' } }, { metadata: { name: 'b' } }],
    });
  });

  it('does not touch text that only reads like it', () => {
    const object = {
      metadata: { annotations: { last: JSON.stringify({ metadata: { managedFields: [entry] } }) } },
      data: { managedFields: '[1]', other: '"managedFields":[1]' },
    };
    expect(cut(object)).toEqual(object);
  });

  it('gives back what is cut off in the middle, for whoever parses it to say so', () => {
    const json = JSON.stringify({ metadata: { managedFields: [entry] } });
    const start = json.indexOf('[') + 1;
    for (let end = start; end < json.length - 3; end++)
      expect(withoutManagedFields(json.slice(0, end))).toBe(json.slice(0, end));
  });

  it('is what parsing and deleting would be, for any object', () => {
    const metadata = fc.record({
      a: fc.jsonValue(),
      managedFields: fc.array(fc.jsonValue()),
      z: fc.jsonValue(),
    });
    fc.assert(
      fc.property(metadata, fc.jsonValue(), (meta, spec) => {
        const json = JSON.stringify({ spec, metadata: meta });
        fc.pre(json.split('"managedFields":[').length === 2);
        const { managedFields: _cut, ...rest } = JSON.parse(json).metadata;
        expect(JSON.parse(withoutManagedFields(json))).toEqual(
          JSON.parse(JSON.stringify({ spec, metadata: rest })),
        );
      }),
    );
  });
});
