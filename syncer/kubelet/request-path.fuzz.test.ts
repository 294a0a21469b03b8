import fc from 'fast-check';
import { expect, it } from 'vitest';
import { fuzzed } from '../../kube/testing/fuzz.ts';
import { parseKubeletRequest, subresourcePath } from './request-path.ts';

const segment = fc.oneof(
  fc.constantFrom(
    'exec',
    'attach',
    'run',
    'containerLogs',
    'portForward',
    'shop',
    'web-1',
    'main',
    '..',
    '.',
    '',
    '%2e%2e',
    '%2F',
    '%2f..%2f',
    '%252e',
    '%',
    '%zz',
    '%00',
    '__proto__',
    'constructor',
    'kube-system',
    'a?b',
    '#',
    '\\',
  ),
  fc.string({ unit: 'binary', maxLength: 12 }),
);

it('any path names a pod by names alone, or none, and leads into no other path of the super cluster', () => {
  let pods = 0;
  fc.assert(
    fc.property(fc.array(segment, { maxLength: 8 }), fc.string({ maxLength: 40 }), (segments, query) => {
      const request = parseKubeletRequest(`/${segments.join('/')}?${query}`);
      if (request.about !== 'pod') return;
      pods += 1;
      const { pod } = request;
      for (const name of [pod.namespace, pod.pod, pod.uid, pod.container])
        if (name !== undefined) expect(name).toMatch(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/);
      const path = subresourcePath(pod, { namespace: 'super-shop', name: pod.pod });
      expect(path.split('?')[0]).toMatch(
        /^\/api\/v1\/namespaces\/super-shop\/pods\/[a-z0-9.-]+\/(log|exec|attach|portforward)$/,
      );
      expect(path).not.toContain('#');
    }),
    fuzzed(20_000),
  );
  expect(pods).toBeGreaterThan(0);
});
