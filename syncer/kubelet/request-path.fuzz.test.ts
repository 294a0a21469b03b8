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

/** Of the form that names a pod, with a name in one place or another that is none. */
const likely = fc.tuple(
  fc.constantFrom('exec', 'attach', 'run', 'containerLogs', 'portForward'),
  fc.constantFrom('shop', 'kube-system', '%2e%2e', '..'),
  fc.constantFrom('web-1', 'web-1%2f..', ''),
  fc.constantFrom('main', '%2F', '__proto__'),
);
const path = fc.oneof(
  { arbitrary: fc.array(segment, { maxLength: 8 }), weight: 9 },
  { arbitrary: likely, weight: 1 },
);

it('any path names a pod by names alone, or none, and leads into no other path of the super cluster', () => {
  let pods = 0;
  fc.assert(
    fc.property(path, fc.string({ maxLength: 40 }), (segments, query) => {
      const request = parseKubeletRequest(`/${segments.join('/')}?${query}`);
      if (request.about !== 'pod') return;
      pods += 1;
      const { pod } = request;
      for (const name of [pod.namespace, pod.pod, pod.uid, pod.container])
        if (name !== undefined) expect(name).toMatch(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/);
      const superPath = subresourcePath(pod, { namespace: 'super-shop', name: pod.pod });
      expect(superPath.split('?')[0]).toMatch(
        /^\/api\/v1\/namespaces\/super-shop\/pods\/[a-z0-9.-]+\/(log|exec|attach|portforward)$/,
      );
      expect(superPath).not.toContain('#');
    }),
    fuzzed(300_000),
  );
  expect(pods).toBeGreaterThan(0);
});
