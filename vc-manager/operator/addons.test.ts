import { describe, expect, it } from 'vitest';
import { loadTemplates } from '../control-plane/template.ts';
import { renderAddon } from './addons.ts';

const values = {
  clusterDomain: 'example.local',
  dnsAddress: '10.112.4.10',
  backgroundEnv: '[]',
  backgroundAliases: '[]',
};
const templates = await loadTemplates();

function object(fields: object): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: 'a', namespace: 'b' },
    ...fields,
  });
}

describe('renderAddon', () => {
  it('fills in, labels, and keeps the order', () => {
    const text = `${object({ data: { a: '${clusterDomain} ${dnsAddress}' } })}\n---\n${object({ kind: 'Service' })}`;
    const objects = renderAddon('dns', text, values);
    expect(objects.map(({ resource, once }) => [resource.plural, once])).toEqual([
      ['configmaps', false],
      ['services', false],
    ]);
    expect(objects[0]?.object).toMatchObject({
      metadata: { labels: { 'skerry.dev/addon': 'dns' } },
      data: { a: 'example.local 10.112.4.10' },
    });
  });

  it('tells by a hash what was made from another text, and by nothing else', () => {
    const hash = (fields: object, others = values): unknown =>
      renderAddon('dns', object(fields), others)[0]?.object.metadata.annotations?.['skerry.dev/addon-hash'];
    const data = { a: '${dnsAddress}' };
    expect(hash({ data })).toBe(hash({ data }));
    expect(hash({ data })).not.toBe(hash({ data: { a: 'b' } }));
    expect(hash({ data })).not.toBe(hash({ data }, { ...values, dnsAddress: '10.112.8.10' }));
  });

  it('knows what is made once, and does not say so in the tenant', () => {
    const metadata = { name: 'a', namespace: 'b', annotations: { 'skerry.dev/apply': 'once', note: 'x' } };
    const [only] = renderAddon('dns', object({ metadata }), values);
    expect(only?.once).toBe(true);
    expect(Object.keys(only?.object.metadata.annotations ?? {}).sort()).toEqual([
      'note',
      'skerry.dev/addon-hash',
    ]);
  });

  it.each([
    ['a placeholder that nothing fills in', object({ data: { a: '${other}' } }), 'other'],
    ['text that is no YAML', 'a: [', 'addon dns'],
    ['an empty document', `${object({})}\n---\n`, 'object 2'],
    ['a kind that an addon cannot have', object({ kind: 'Secret' }), 'v1 Secret'],
    ['a kind of another version', object({ apiVersion: 'v2' }), 'v2 ConfigMap'],
    ['an object without namespace', object({ metadata: { name: 'a' } }), 'a namespace'],
    ['an object without name', object({ metadata: { namespace: 'a' } }), 'a name'],
  ])('refuses %s', (_title, text, message) => {
    expect(() => renderAddon('dns', text, values)).toThrow(
      expect.objectContaining({ code: 'InvalidAddon', message: expect.stringContaining(message) }),
    );
  });
});

describe('the packaged addon coredns', () => {
  it.each(templates.map(({ metadata, spec }) => [metadata.name, spec.addons?.['coredns'] ?? '']))(
    'of %s is complete',
    (_name, text) => {
      const objects = renderAddon('coredns', text, values);
      expect(objects.map(({ object: { kind, metadata } }) => `${kind} ${metadata.name}`)).toEqual([
        'Service kube-dns',
        'ServiceAccount coredns',
        'ClusterRole system:coredns',
        'ClusterRoleBinding system:coredns',
        'ConfigMap coredns',
        'Deployment coredns',
      ]);
      expect(objects[0]?.object).toMatchObject({ spec: { clusterIP: '10.112.4.10' } });
      expect(objects.filter(({ once }) => once).map(({ object: { kind } }) => kind)).toEqual(['ConfigMap']);
      const configMap = objects[4]?.object as { data?: { Corefile: string } } | undefined;
      expect(configMap?.data?.Corefile).toContain('kubernetes example.local ');
    },
  );
});
