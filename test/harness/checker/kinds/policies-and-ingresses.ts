import type { KubeObject } from '../../../../kube/index.ts';
import { compareDown, type DownRules } from '../down.ts';
import { compareKeys } from '../labels-and-annotations.ts';
import { type KindChecks, type SeededDifference, setField } from '../seeded-differences.ts';
import { annotation, at, label, listAt, selects, unequal, type View } from '../view.ts';

type Selected = (selector: unknown, policyNamespace: string | undefined) => string[];

/** Judged by what they select on either side, not by how it is written there. */
function compareNetworkPolicies(view: View): string[] {
  const rules: DownRules = {
    kind: 'networkpolicies',
    what: 'NetworkPolicy',
    expected: (_, { tenant }) => (tenant.networkPolicies ? 'yes' : 'no'),
    isForeign: isIsolation,
    compare: (own, superObject) => [
      ...unequal(at(own, 'spec', 'policyTypes'), at(superObject, 'spec', 'policyTypes'), 'policyTypes'),
      ...unequal(
        picture(own, ownPods(view), ownNamespaces(view)),
        picture(superObject, superPods(view), superNamespaces(view)),
        'what it selects',
      ),
    ],
  };
  return [...compareDown(rules, view), ...compareIsolation(view)];
}

/** What keeps tenants apart is in every super namespace, or in none where nothing enforces it. */
function compareIsolation(view: View): string[] {
  const found = new Map<string | undefined, string[]>();
  for (const { metadata } of view.marked('networkpolicies').filter(isIsolation))
    found.set(metadata.namespace, [...(found.get(metadata.namespace) ?? []), metadata.name ?? '']);
  if (found.size === 0) return [];
  return view
    .marked('namespaces')
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    .filter(({ metadata }) => found.get(metadata.name)?.includes('skerry-egress') !== true)
    .map(({ metadata }) => `namespace ${metadata.name} of the super cluster is not isolated as others are`);
}

function isIsolation(policy: KubeObject): boolean {
  return label(policy, 'skerry.dev/isolation') !== undefined;
}

/** A policy with all selectors replaced by what they select, in the tenant's terms. */
function picture(policy: KubeObject, pods: Selected, namespaces: Selected): unknown {
  const { namespace } = policy.metadata;
  const peer = (each: Record<string, unknown>): unknown => ({
    ipBlock: each['ipBlock'] ?? null,
    namespaces:
      each['namespaceSelector'] === undefined ? null : namespaces(each['namespaceSelector'], undefined),
    pods:
      each['podSelector'] === undefined
        ? null
        : pods(each['podSelector'], each['namespaceSelector'] ? undefined : namespace),
  });
  const rules = (direction: string, side: string): unknown =>
    listAt(policy, 'spec', direction).map((rule) => ({
      ports: listAt(rule, 'ports'),
      peers: listAt(rule, side).map(peer),
    }));
  return {
    pods: pods(at(policy, 'spec', 'podSelector'), namespace),
    ingress: rules('ingress', 'from'),
    egress: rules('egress', 'to'),
  };
}

/** Pods are named by their UIDs; those that are on one side only are another's business. */
function ownPods(view: View): Selected {
  const below = new Set(view.marked('pods').map((pod) => pod.metadata.annotations?.['skerry.dev/uid']));
  return (selector, namespace) =>
    view.own.pods
      .filter(
        ({ metadata }) => below.has(metadata.uid) && (namespace ?? metadata.namespace) === metadata.namespace,
      )
      .filter(({ metadata }) => selects(selector, metadata.labels))
      .map(({ metadata }) => metadata.uid ?? '')
      .sort();
}

/** Of all tenants' pods: one of another tenant would show as a difference. */
function superPods(view: View): Selected {
  const above = new Set(view.own.pods.map(({ metadata }) => metadata.uid));
  return (selector, namespace) =>
    view.superSide.pods
      .filter(({ metadata }) => (namespace ?? metadata.namespace) === metadata.namespace)
      .filter(({ metadata }) => selects(selector, metadata.labels))
      .map(({ metadata }) => metadata.annotations?.['skerry.dev/uid'] ?? `unmarked ${metadata.name}`)
      .filter((uid) => above.has(uid) || !belongsTo(view, uid))
      .sort();
}

function belongsTo(view: View, uid: string): boolean {
  return view.marked('pods').some((pod) => pod.metadata.annotations?.['skerry.dev/uid'] === uid);
}

function ownNamespaces(view: View): Selected {
  return (selector) =>
    view.own.namespaces
      .filter(({ metadata }) => view.superNamespaces.has(metadata.name ?? ''))
      .filter(({ metadata }) => selects(selector, metadata.labels))
      .map(({ metadata }) => metadata.name ?? '')
      .sort();
}

function superNamespaces(view: View): Selected {
  return (selector) =>
    view.superSide.namespaces
      .filter(({ metadata }) => selects(selector, metadata.labels))
      .map(({ metadata }) => {
        const { 'skerry.dev/tenant': tenant, 'skerry.dev/namespace': name } = metadata.labels ?? {};
        return tenant === view.tenant.uid ? (name ?? '') : `foreign ${metadata.name}`;
      })
      .sort();
}

const disruptionBudgetRules: DownRules = {
  kind: 'poddisruptionbudgets',
  what: 'PodDisruptionBudget',
  expected: () => 'yes',
  compare(own, superObject) {
    const found = ['selector', 'unhealthyPodEvictionPolicy'].flatMap((field) =>
      unequal(at(own, 'spec', field), at(superObject, 'spec', field), field),
    );
    if (at(superObject, 'spec', 'maxUnavailable') !== undefined) found.push('maxUnavailable went down');
    const enough = at<number>(superObject, 'spec', 'minAvailable');
    if (typeof enough !== 'number')
      found.push(`minAvailable of the super cluster is ${enough}, not a number`);
    if (isCounted(own))
      found.push(...unequal(at(own, 'status', 'desiredHealthy'), enough, 'healthy pods wanted'));
    else if ((enough ?? 0) < 1_000_000) found.push('may be disrupted although the tenant has not counted');
    // Each side has counted for itself, by its own pods.
    const allowed = (budget: KubeObject): unknown => at(budget, 'status', 'disruptionsAllowed') ?? 0;
    return [...found, ...unequal(allowed(own), allowed(superObject), 'disruptions allowed')];
  },
};

function compareDisruptionBudgets(view: View): string[] {
  return compareDown(disruptionBudgetRules, view);
}

function isCounted(own: KubeObject): boolean {
  const observed = at<number>(own, 'status', 'observedGeneration') ?? 0;
  const hasFailed = listAt(own, 'status', 'conditions').some(({ reason }) => reason === 'SyncFailed');
  return (
    observed >= (own.metadata.generation ?? 0) &&
    (at<number>(own, 'status', 'expectedPods') ?? 0) > 0 &&
    !hasFailed
  );
}

const ingressRules: DownRules = {
  kind: 'ingresses',
  what: 'Ingress',
  expected: (own, view) => (isAllowed(own, view) ? 'yes' : 'no'),
  compare(own, superObject, view) {
    const found = [
      ...unequal(classOf(own), at(superObject, 'spec', 'ingressClassName'), 'class'),
      ...unequal(at(own, 'spec', 'rules'), at(superObject, 'spec', 'rules'), 'rules'),
      ...unequal(certificatesThere(own, view), certificates(superObject), 'tls'),
      ...unequal(
        at(own, 'status', 'loadBalancer'),
        at(superObject, 'status', 'loadBalancer'),
        'load balancer',
      ),
    ];
    if (at(superObject, 'spec', 'defaultBackend') !== undefined) found.push('has a default backend');
    const harmless = Object.entries(own.metadata.annotations ?? {}).filter(([key]) => !key.includes('/'));
    const metadata = { ...own.metadata, annotations: Object.fromEntries(harmless) };
    return [...found, ...compareKeys({ ...own, metadata }, superObject, { allAnnotations: true })];
  },
  keysGoDown: false,
};

function compareIngresses(view: View): string[] {
  return compareDown(ingressRules, view);
}

function classOf(ingress: KubeObject): string | undefined {
  return at(ingress, 'spec', 'ingressClassName') ?? annotation(ingress, 'kubernetes.io/ingress.class');
}

/** Without hosts, a certificate is for those of the rules. */
function certificates(ingress: KubeObject): unknown[][] {
  const hosts = hostsOfRules(ingress);
  return listAt(ingress, 'spec', 'tls').map((each) => [at(each, 'hosts') ?? hosts, at(each, 'secretName')]);
}

/** A Secret that the tenant does not have is not named in the super cluster. */
function certificatesThere(own: KubeObject, view: View): unknown {
  const { namespace } = own.metadata;
  const isThere = (name: unknown) => view.ownObject('secrets', namespace, String(name)) !== undefined;
  return certificates(own).map(([hosts, name]) => [hosts, isThere(name) ? name : undefined]);
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

const inRules: SeededDifference[] = [
  {
    what: 'a network policy lets other tenants in',
    plant: (c) =>
      setField(c.superObject('networkpolicies', 'walls'), ['spec', 'ingress', 0, 'from', 0], {
        namespaceSelector: {},
      }),
    message: /NetworkPolicy shop\/walls: what it selects/,
  },
  {
    what: 'a network policy is for other pods',
    plant: (c) =>
      setField(c.superObject('networkpolicies', 'walls'), ['spec', 'podSelector', 'matchLabels'], {
        app: 'db',
      }),
    message: /NetworkPolicy shop\/walls: what it selects/,
  },
  {
    what: 'a network policy is missing',
    plant: (c) => c.remove('superSide', 'networkpolicies', c.superObject('networkpolicies', 'walls')),
    message: /NetworkPolicy shop\/walls: is not in the super/,
  },
  {
    what: 'a disruption budget is a share',
    plant: (c) => setField(c.superObject('poddisruptionbudgets', 'web'), ['spec', 'minAvailable'], '50%'),
    message: /minAvailable of the super cluster is 50%, not a number/,
  },
  {
    what: 'a disruption budget wants fewer pods',
    plant: (c) => setField(c.superObject('poddisruptionbudgets', 'web'), ['spec', 'minAvailable'], 0),
    message: /healthy pods wanted: 1 in the tenant, 0 in the super/,
  },
  {
    what: 'more may be disrupted on one side',
    plant: (c) =>
      setField(c.tenantObject('poddisruptionbudgets', 'web'), ['status', 'disruptionsAllowed'], 2),
    message: /disruptions allowed: 2 in the tenant/,
  },
  {
    what: 'an Ingress that is not allowed is down',
    plant(c) {
      const ingress = structuredClone(c.superObject('networkpolicies', 'walls'));
      c.superSide.ingresses.push(ingress);
      c.own.ingresses.push(c.tenantObject('networkpolicies', 'walls'));
    },
    message: /Ingress shop\/walls: is in the super cluster and should not be/,
  },
];

export const policyChecks: KindChecks = {
  compare: [compareIngresses, compareNetworkPolicies, compareDisruptionBudgets],
  seeded: [...inRules],
};
