import type { KubeObject } from '../../../../kube/index.ts';
import { compareDown, type DownRules } from '../down.ts';
import { compareKeys } from '../marks.ts';
import { annotation, at, label, listAt, unequal } from '../raw.ts';
import type { View } from '../view.ts';

const rules: DownRules = {
  kind: 'ingresses',
  what: 'Ingress',
  expected: (own, view) => (isAllowed(own, view) ? 'yes' : 'no'),
  compare(own, superObject) {
    const found = [
      ...unequal(classOf(own), at(superObject, 'spec', 'ingressClassName'), 'class'),
      ...unequal(at(own, 'spec', 'rules'), at(superObject, 'spec', 'rules'), 'rules'),
      ...unequal(certificates(own), certificates(superObject), 'tls'),
      ...unequal(
        at(own, 'status', 'loadBalancer'),
        at(superObject, 'status', 'loadBalancer'),
        'load balancer',
      ),
    ];
    if (at(superObject, 'spec', 'defaultBackend') !== undefined) found.push('has a default backend');
    const harmless = Object.entries(own.metadata.annotations ?? {}).filter(([key]) => !key.includes('/'));
    const metadata = { ...own.metadata, annotations: Object.fromEntries(harmless) };
    return [...found, ...compareKeys({ ...own, metadata }, superObject)];
  },
  keysGoDown: false,
};

export function compareIngresses(view: View): string[] {
  return compareDown(rules, view);
}

function classOf(ingress: KubeObject): string | undefined {
  return at(ingress, 'spec', 'ingressClassName') ?? annotation(ingress, 'kubernetes.io/ingress.class');
}

/** Without hosts, a certificate is for those of the rules. */
function certificates(ingress: KubeObject): unknown {
  const hosts = hostsOfRules(ingress);
  return listAt(ingress, 'spec', 'tls').map((each) => [at(each, 'hosts') ?? hosts, at(each, 'secretName')]);
}

function hostsOfRules(ingress: KubeObject): string[] {
  return [...new Set(listAt<{ host?: string }>(ingress, 'spec', 'rules').map(({ host }) => host ?? ''))];
}

function isAllowed(own: KubeObject, view: View): boolean {
  const { tenant } = view;
  if (!tenant.ingresses || !isPublished(classOf(own) ?? '', view)) return false;
  if (at(own, 'spec', 'defaultBackend') !== undefined) return false;
  const hosts = [
    ...hostsOfRules(own),
    ...listAt(own, 'spec', 'tls').flatMap((each) => listAt<string>(each, 'hosts')),
  ];
  const isOwnHost = (host: string): boolean =>
    tenant.ingressHosts.some((allowed) =>
      allowed.startsWith('*.') ? host.endsWith(allowed.slice(1)) : host === allowed,
    );
  if (!hosts.every(isOwnHost)) return false;
  const backends = listAt(own, 'spec', 'rules').flatMap((rule) => listAt(rule, 'http', 'paths'));
  return backends.every((path) => {
    const name = at<string>(path, 'backend', 'service', 'name');
    if (name === undefined) return false;
    const service = view.ownObject('services', own.metadata.namespace, name);
    return at(service, 'spec', 'type') !== 'ExternalName';
  });
}

function isPublished(name: string, view: View): boolean {
  const original = view.superSide.ingressclasses.find(({ metadata }) => metadata.name === name);
  const copy = view.ownObject('ingressclasses', undefined, name);
  if (original === undefined || copy === undefined) return false;
  return (
    label(original, 'skerry.dev/public') === 'true' &&
    annotation(copy, 'skerry.dev/uid') === original.metadata.uid
  );
}
