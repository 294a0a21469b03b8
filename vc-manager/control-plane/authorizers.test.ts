import { X509Certificate } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import { createAuthority, issue, type LeafRequest } from '../pki/index.ts';
import { authorizers, type WriteStop } from './authorizers.ts';

/** Of a SubjectAccessReview, as conditions see it. */
interface Request {
  user?: string;
  extra?: Record<string, string[]>;
  resourceAttributes?: {
    verb: string;
    group: string;
    resource: string;
    subresource: string;
    name: string;
  };
}

interface Authorizer {
  type: string;
  name: string;
  webhook?: { failurePolicy: string; matchConditions: { expression: string }[] };
}

const contains = (all: object, one: string): boolean =>
  Array.isArray(all) ? all.includes(one) : Object.hasOwn(all, one);

/**
 * A condition in CEL. What those here use of it is said in JavaScript, and what CEL has not is refused; that an API server
 * takes it is proven end to end.
 */
function holds(expression: string, request: Request): boolean {
  expect(expression).not.toMatch(/===|!==|\\|\(\?|\.(?!matches\(|startsWith\()\w+\(/);
  const script = expression
    .replaceAll(/has\(([\w.]+)\)/g, '($1 !== undefined)')
    .replaceAll(/([\w.]+)\.matches\('([^']*)'\)/g, "new RegExp('$2').test($1)")
    .replaceAll(/('[^']*'|[\w.]+) in (\[[^\]]*\]|[\w.]+(?:\['[^']*'\])?)/g, 'contains($2, $1)');
  const value: unknown = Function('request', 'contains', `return ${script}`)(request, contains);
  expect(value).toBeTypeOf('boolean');
  return value === true;
}

const neverAnswers = /^dyn\(\{\}\)\['([^'\\]*)'\] == true$/;

describe('the authorizers of an API server', () => {
  let controllers = '';
  let another = '';
  beforeAll(async () => {
    const authority = await createAuthority({ commonName: 'clients' });
    const request: LeafRequest = { commonName: 'system:kube-controller-manager', usage: ['client'] };
    controllers = (await issue(authority, request)).certPem;
    another = (await issue(authority, request)).certPem;
  });

  const configured = (stop: WriteStop): Authorizer[] =>
    JSON.parse(authorizers(stop, { kubeConfigFile: '/none', controllerManager: controllers }));

  /** The text with which the webhooks before RBAC refuse a request; undefined: RBAC is asked. */
  const refusal = (stop: WriteStop, request: Request): string | undefined => {
    for (const { webhook } of configured(stop)) {
      const conditions = webhook?.matchConditions.map(({ expression }) => expression) ?? [];
      const message = neverAnswers.exec(conditions.pop() ?? '')?.[1];
      if (message !== undefined && conditions.every((each) => holds(each, request))) return message;
    }
    return undefined;
  };

  const asks = (verb: string, path: string, more: Omit<Request, 'resourceAttributes'> = {}): Request => {
    const [, group = '', resource = '', subresource = ''] =
      /^(?:(.*)\/)?([^/]+?)(?::(.*))?$/.exec(path) ?? [];
    return {
      user: 'someone',
      ...more,
      resourceAttributes: { verb, group, resource, subresource, name: 'x' },
    };
  };
  const withCertificate = (pem: string): Pick<Request, 'extra'> => {
    const fingerprint = new X509Certificate(pem).fingerprint256.replaceAll(':', '').toLowerCase();
    return { extra: { 'authentication.kubernetes.io/credential-id': [`X509SHA256=${fingerprint}`] } };
  };
  const controller = (name: string) => ({ user: `system:serviceaccount:kube-system:${name}` });

  it('end with RBAC, and refuse where a webhook before it does not answer', () => {
    for (const stop of ['none', 'stopped', 'sealed'] as const) {
      const all = configured(stop);
      expect(all.pop()).toEqual({ type: 'RBAC', name: 'rbac' });
      for (const { webhook } of all) {
        expect(webhook?.failurePolicy).toBe('Deny');
        expect(webhook?.matchConditions.at(-1)?.expression).toMatch(neverAnswers);
      }
    }
  });

  it.each([
    ['reads', 'list', 'configmaps', {}, []],
    ['deletions', 'delete', 'configmaps', {}, []],
    ['deletions of all', 'deletecollection', 'configmaps', {}, []],
    ['creations', 'create', 'configmaps', {}, ['stopped', 'sealed']],
    ['updates', 'update', 'apps/deployments:scale', {}, ['stopped', 'sealed']],
    ['patches', 'patch', 'configmaps', {}, ['stopped', 'sealed']],
    ['bindings', 'create', 'pods:binding', {}, ['stopped', 'sealed']],
    ['impersonation', 'impersonate', 'groups', {}, ['stopped', 'sealed']],
    ['limited impersonation', 'impersonate:user-info', 'users', {}, ['stopped', 'sealed']],
    ['reviews of tokens', 'create', 'authentication.k8s.io/tokenreviews', {}, []],
    ['reviews of rights', 'create', 'authorization.k8s.io/selfsubjectaccessreviews', {}, []],
    ['commands in pods', 'create', 'pods:exec', {}, []],
    ['attaching to pods', 'create', 'pods:attach', {}, []],
    ['forwarding of ports', 'create', 'pods:portforward', {}, []],
    ['requests to Services', 'create', 'services:proxy', {}, []],
    ['evictions', 'create', 'pods:eviction', {}, []],
    ['what finishes deletions', 'patch', 'pods', controller('generic-garbage-collector'), ['sealed']],
    [
      'what finishes namespaces',
      'update',
      'namespaces:finalize',
      controller('namespace-controller'),
      ['sealed'],
    ],
    ['what finishes Jobs', 'patch', 'pods', controller('job-controller'), ['sealed']],
    [
      'what finishes claims',
      'update',
      'persistentvolumeclaims',
      controller('pvc-protection-controller'),
      ['sealed'],
    ],
    [
      'what finishes volumes',
      'update',
      'persistentvolumes',
      controller('pv-protection-controller'),
      ['sealed'],
    ],
    ['what they create', 'create', 'pods', controller('job-controller'), ['stopped', 'sealed']],
    ['other controllers', 'patch', 'pods', controller('deployment-controller'), ['stopped', 'sealed']],
  ] as const)('refuse, of %s, what adds to a datastore that is full', (_, verb, path, more, stops) => {
    const refused = (['none', 'stopped', 'sealed'] as const).filter((stop) =>
      refusal(stop, asks(verb, path, more))?.startsWith('The datastore quota'),
    );
    expect(refused).toEqual(stops);
  });

  it('know the program of the controllers by its certificate and not by its name', () => {
    const user = 'system:kube-controller-manager';
    const create = (more: Pick<Request, 'extra'>) =>
      asks('create', 'serviceaccounts:token', { user, ...more });
    for (const stop of ['stopped', 'sealed'] as const) {
      expect(refusal(stop, create(withCertificate(controllers)))).toBeUndefined();
      expect(refusal(stop, create(withCertificate(another)))).toBeDefined();
      expect(refusal(stop, create({}))).toBeDefined();
    }
  });

  it('ask nothing of requests that are for no resource', () => {
    for (const stop of ['none', 'stopped', 'sealed'] as const)
      expect(refusal(stop, { user: 'someone' })).toBeUndefined();
  });

  it.each(['none', 'stopped', 'sealed'] as const)(
    'refuse other ports of a node than that of its kubelet (%s)',
    (stop) => {
      const ask = (name: string, more: object = {}): string | undefined => {
        const attributes = { verb: 'get', group: '', resource: 'nodes', subresource: 'proxy', name, ...more };
        return refusal(stop, { user: 'someone', resourceAttributes: attributes });
      };
      for (const name of ['n1', 'https:n1:', 'n1:10250', 'https:n1:10250'])
        expect(ask(name), name).toBeUndefined();
      for (const name of ['n1:1', 'http:n1:8080', 'https:n1:10251', 'https:n1:102500'])
        expect(ask(name), name).toMatch(/^A node is asked at its kubelet port alone/);
      expect(ask('n1:1', { subresource: 'status' })).toBeUndefined();
      expect(ask('n1:1', { resource: 'services' })).toBeUndefined();
      expect(ask('n1:1', { group: 'example.com' })).toBeUndefined();
    },
  );
});
