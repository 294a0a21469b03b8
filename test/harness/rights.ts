import { createReadStream, existsSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import {
  loadRights,
  type PolicyRule,
  type ProgramName,
  type Rights,
  userOf,
} from '../../vc-manager/rights.ts';

/** Those that every stack of a suite has. */
const audited = ['manager', 'syncer'] as const;
type AuditedProgram = (typeof audited)[number];

/** One request to the super cluster, as its API server has recorded it. */
export interface AuditedRequest {
  readonly user: string;
  readonly verb: string;
  /** Undefined: no resource, such as a path of discovery. */
  readonly resource?: {
    readonly apiGroup: string;
    /** With the subresource: `pods/log`. */
    readonly resource: string;
    readonly namespace: string | undefined;
    readonly name: string | undefined;
  };
  /** A patch that has made the object, for which one needs the right to create it as well. */
  readonly hasCreated: boolean;
  readonly path: string;
  /** By roles; what was let in may have been refused by other rules. */
  readonly isAllowed: boolean;
}

interface AuditEvent {
  verb: string;
  requestURI: string;
  user: { username: string };
  objectRef?: {
    apiGroup?: string;
    resource?: string;
    subresource?: string;
    namespace?: string;
    name?: string;
  };
  annotations?: Record<string, string>;
  responseStatus?: { code?: number };
}

/** Where a local stack that was started with `--audit` has it. */
export function auditLogOf(stateDir: string): string {
  return join(stateDir, 'stack', 'data', 'kube-apiserver', 'audit.log');
}

/** Nothing if there is no such file. A line that a crash has cut off is left out. */
async function* readAuditLog(file: string): AsyncGenerator<AuditedRequest> {
  if (!existsSync(file)) return;
  for await (const line of createInterface({ input: createReadStream(file) })) {
    const asked = parseAuditLine(line);
    if (asked !== undefined) yield asked;
  }
}

export function parseAuditLine(line: string): AuditedRequest | undefined {
  let event: AuditEvent;
  try {
    event = JSON.parse(line) as AuditEvent;
  } catch {
    return undefined;
  }
  const { verb, requestURI: path, user, objectRef, annotations, responseStatus } = event;
  const isAllowed = annotations?.['authorization.k8s.io/decision'] !== 'forbid';
  const hasCreated = verb === 'patch' && responseStatus?.code === 201;
  const common = { user: user.username, verb, hasCreated, path, isAllowed };
  if (objectRef?.resource === undefined) return common;
  const { apiGroup = '', resource, subresource, namespace, name } = objectRef;
  const full = subresource === undefined ? resource : `${resource}/${subresource}`;
  return { ...common, resource: { apiGroup, resource: full, namespace, name } };
}

/** Rights in the words of `UseOfRights`. */
function rightsTo(
  program: ProgramName,
  verbs: readonly string[],
  resources: readonly string[],
): readonly string[] {
  return resources.flatMap((resource) => verbs.map((verb) => `${program}: ${verb} ${resource}`));
}

const systemNamespace = 'skerry-system';

/** Rights that the end-to-end suites may leave unused, and why they are granted all the same. */
const unusedOnPurpose: readonly { rights: readonly string[]; why: string }[] = [
  {
    rights: rightsTo(
      'syncer',
      ['get', 'patch', 'delete'],
      [
        'namespaces',
        'pods',
        'services',
        'configmaps',
        'secrets',
        'serviceaccounts',
        'persistentvolumeclaims',
        'ingresses.networking.k8s.io',
        'networkpolicies.networking.k8s.io',
        'poddisruptionbudgets.policy',
        'endpointslices.discovery.k8s.io',
      ],
    ),
    why: 'one engine writes all kinds that go down, by the same calls: syncer/rights.test.ts holds the rights to its kinds',
  },
  {
    rights: rightsTo('syncer', ['update'], ['configmaps', 'secrets']),
    why: 'both are written as a whole by one call: syncer/rights.test.ts holds the right to the kinds that are',
  },
  {
    rights: rightsTo(
      'syncer',
      ['get'],
      [
        'nodes',
        'persistentvolumes',
        'events',
        'storageclasses.storage.k8s.io',
        'priorityclasses.scheduling.k8s.io',
        'runtimeclasses.node.k8s.io',
        'ingressclasses.networking.k8s.io',
        'customresourcedefinitions.apiextensions.k8s.io',
      ],
    ),
    why: 'asked only before something is believed to be gone',
  },
  {
    rights: rightsTo('syncer', ['create', 'patch'], ['events']),
    why: 'only when a tenant takes too much memory, or a replica died while it took one up',
  },
  {
    rights: rightsTo('syncer', ['get'], ['nodes/proxy', 'pods/log']),
    why: 'asked only of nodes that are not simulated, whose suites run in a stack of their own',
  },
  {
    rights: rightsTo('syncer', ['get', 'create'], ['pods/exec', 'pods/attach', 'pods/portforward']),
    why: 'GET or POST: the client decides how it upgrades its connection',
  },
  {
    rights: rightsTo('syncer', ['list'], ['pods.metrics.k8s.io']),
    why: 'asked only where the super cluster has the metrics API',
  },
  {
    rights: rightsTo('syncer', ['get', 'delete'], ['ipaddresses.networking.k8s.io']),
    why: 'only for a Service whose address the manager has reserved: DNS, which simulated nodes do not run',
  },
  {
    rights: rightsTo('manager', ['delete'], [`configmaps in ${systemNamespace}`]),
    why: 'only what was used more than a year ago is deleted',
  },
  {
    rights: rightsTo(
      'manager',
      ['update'],
      ['controlplanetemplates.skerry.dev', 'customresourcedefinitions.apiextensions.k8s.io'],
    ),
    why: 'only what an older release has made is brought up to date',
  },
  {
    rights: rightsTo(
      'manager',
      ['patch'],
      [
        'validatingadmissionpolicies.admissionregistration.k8s.io',
        'validatingadmissionpolicybindings.admissionregistration.k8s.io',
      ],
    ),
    why: 'only what an older release has made is brought up to date',
  },
  {
    rights: ['manager: delete leases.coordination.k8s.io in skerry-system'],
    why: 'the Lease of each tenant that is worked on, only with Redis and control planes that run as pods',
  },
  {
    rights: rightsTo('manager', ['delete'], ['persistentvolumes']),
    why: 'the syncer removes them with the tenant; this is for what a syncer has left that does not come back',
  },
  {
    rights: rightsTo('manager', ['get'], ['services', 'ipaddresses.networking.k8s.io']),
    why: 'only when an address that a new tenant needs is taken',
  },
  {
    rights: rightsTo(
      'manager',
      ['delete'],
      ['statefulsets.apps', 'services', 'poddisruptionbudgets.policy', 'networkpolicies.networking.k8s.io'],
    ),
    why: 'only what a template no longer names: everything else goes with its namespace',
  },
  {
    rights: rightsTo('manager', ['delete'], ['pods']),
    why: 'only pods that outlive their grace period, or are given less',
  },
  {
    rights: rightsTo('manager', ['patch'], ['pods/resize']),
    why: 'only for tenants whose weight is not 1',
  },
  {
    rights: rightsTo('manager', ['list'], ['events']),
    why: 'only when a quota or a webhook has let no pod be made for a minute',
  },
  {
    rights: rightsTo('manager', ['get'], ['runtimeclasses.node.k8s.io']),
    why: 'only under a policy that asks for a runtime class',
  },
];

/** All rights that may be left unused. */
export const exceptions: ReadonlySet<string> = new Set(unusedOnPurpose.flatMap(({ rights }) => rights));

interface Grant {
  readonly program: ProgramName;
  readonly user: string;
  /** `driver`: in all namespaces too, and only for control planes that run in the super cluster. */
  readonly where: 'cluster' | 'namespace' | 'driver';
  readonly apiGroup: string;
  readonly resource: string;
  readonly verb: string;
  readonly names: readonly string[] | undefined;
}

interface UseOptions {
  /** The user of a program; that of the local stack by default. */
  userOf?: (program: ProgramName) => string;
  /** Whether manager and control planes run in the super cluster: then there are rights more. */
  withKubernetesDriver?: boolean;
}

/** Compares what manager and syncer may do with what they did. */
export class UseOfRights {
  /** Each single right, and whether it was of use. */
  readonly #grants: { readonly grant: Grant; used: boolean }[] = [];
  readonly #refused = new Map<string, number>();
  readonly #seen = new Set<string>();
  readonly #users = new Set<string>();
  /** Of requests for no resource. */
  readonly #allowedPaths = new Set<string>();

  readonly #userOf: (program: ProgramName) => string;

  constructor(
    rights: Readonly<Record<AuditedProgram, Rights>> & { readonly gateway?: Rights },
    { userOf: userOfProgram = userOf, withKubernetesDriver = false }: UseOptions = {},
  ) {
    this.#userOf = userOfProgram;
    for (const program of audited) {
      const { cluster, namespace = [], kubernetesDriver = [] } = rights[program];
      for (const rule of cluster) this.#add(program, 'cluster', rule);
      for (const rule of namespace) this.#add(program, 'namespace', rule);
      if (withKubernetesDriver) for (const rule of kubernetesDriver) this.#add(program, 'driver', rule);
    }
    // Not every stack has a gateway: its rights need no use.
    for (const rule of rights.gateway?.cluster ?? []) this.#add('gateway', 'cluster', rule, true);
    for (const rule of rights.gateway?.namespace ?? []) this.#add('gateway', 'namespace', rule, true);
  }

  observe({ user, verb, hasCreated, resource, path, isAllowed }: AuditedRequest): void {
    this.#users.add(user);
    if (!isAllowed) {
      // An API server that has just started refuses what its roles grant, as it does not know them yet.
      if (resource !== undefined && this.#isGranted(user, verb, resource)) return;
      const where = resource?.namespace === undefined ? '' : ' in a namespace';
      const what =
        resource === undefined
          ? withoutQuery(path)
          : `${resource.resource}${resource.apiGroup && `.${resource.apiGroup}`}${where}`;
      const line = `${user} may not ${verb} ${what}`;
      this.#refused.set(line, (this.#refused.get(line) ?? 0) + 1);
      return;
    }
    if (resource === undefined) {
      this.#allowedPaths.add(`${user} may not ${verb} ${withoutQuery(path)}`);
      return;
    }
    const isSystem = resource.namespace === systemNamespace;
    // A request of a kind that was seen before teaches nothing, and there are very many.
    const seen = [
      user,
      verb,
      hasCreated,
      resource.apiGroup,
      resource.resource,
      isSystem,
      isSystem && resource.name,
    ].join();
    if (this.#seen.has(seen) && !isSystem) return;
    this.#seen.add(seen);
    for (const each of this.#grants) {
      each.used ||=
        covers(each.grant, user, verb, resource) ||
        (hasCreated && covers(each.grant, user, 'create', resource));
    }
  }

  #isGranted(user: string, verb: string, resource: NonNullable<AuditedRequest['resource']>): boolean {
    return this.#grants.some(({ grant }) => covers(grant, user, verb, resource));
  }

  /** What they asked for and may not, and how often. */
  get refused(): string[] {
    return [...this.#refused]
      .filter(([line]) => !this.#allowedPaths.has(line))
      .map(([line, times]) => `${line} (${times} times)`)
      .sort();
  }

  /** Whether it has seen requests of both. */
  get isTelling(): boolean {
    return audited.every((program) => this.#users.has(this.#userOf(program)));
  }

  /** `syncer: delete pods`. */
  get unused(): string[] {
    return this.#grants.filter(({ used }) => !used).map(({ grant }) => inWords(grant));
  }

  /** Of those, what is granted for the sake of control planes that run in the super cluster. */
  get unusedByDriver(): string[] {
    return this.#grants
      .filter(({ grant, used }) => grant.where === 'driver' && !used)
      .map(({ grant }) => inWords(grant));
  }

  #add(program: ProgramName, where: Grant['where'], rule: PolicyRule, used = false): void {
    for (const apiGroup of rule.apiGroups)
      for (const resource of rule.resources)
        for (const verb of rule.verbs) {
          const user = this.#userOf(program);
          const grant = { program, user, where, apiGroup, resource, verb, names: rule.resourceNames };
          this.#grants.push({ grant, used });
        }
  }
}

function covers(
  grant: Grant,
  user: string,
  verb: string,
  asked: NonNullable<AuditedRequest['resource']>,
): boolean {
  const { where, apiGroup, resource, names } = grant;
  return (
    user === grant.user &&
    verb === grant.verb &&
    apiGroup === asked.apiGroup &&
    resource === asked.resource &&
    (where !== 'namespace' || asked.namespace === systemNamespace) &&
    (names === undefined || (asked.name !== undefined && names.includes(asked.name)))
  );
}

function withoutQuery(path: string): string {
  return path.split('?')[0] ?? path;
}

function inWords({ program, where, apiGroup, resource, verb }: Grant): string {
  const group = apiGroup === '' ? '' : `.${apiGroup}`;
  return `${program}: ${verb} ${resource}${group}${where === 'namespace' ? ` in ${systemNamespace}` : ''}`;
}

const chartDirectory = join(import.meta.dirname, '..', '..', 'deploy', 'chart');

/** Set by `npm test` when all end-to-end suites run: then each right has to be of use. */
const completeVariable = 'SKERRY_ALL_SUITES';

/** What manager and syncer of a stack were refused by their roles: as sentences. */
export async function refusals(stateDir: string): Promise<string[]> {
  return faultsOf(await useOfRights(stateDir), stateDir, []);
}

interface RunOfSuites {
  env: NodeJS.ProcessEnv;
  /** How many have failed, or did not run. One of them may be the one that uses a right: then none is said to be unused. */
  failed: number;
  tell: (line: string) => void;
}

/**
 * What manager and syncer of a stack were refused by their roles, and, after all suites, which of their rights nobody
 * used: as sentences. Empty: the roles fit.
 */
export async function rightsFaults(stateDir: string, { env, failed, tell }: RunOfSuites): Promise<string[]> {
  const use = await useOfRights(stateDir);
  const isComplete = env[completeVariable] === '1';
  if (isComplete && failed > 0)
    tell(
      `not judged: whether all rights of manager and syncer are used (${failed} suites failed or did not run)`,
    );
  return faultsOf(use, stateDir, isComplete && failed === 0 ? use.unused : []);
}

/**
 * The same of a release of the chart, by its ServiceAccounts: what they were refused, and which of the rights that
 * are for control planes in the super cluster nobody used.
 */
export async function chartRightsFaults(
  stateDir: string,
  userOf: (program: ProgramName) => string,
): Promise<string[]> {
  const use = await useOfRights(stateDir, { userOf, withKubernetesDriver: true });
  return faultsOf(use, stateDir, use.unusedByDriver);
}

function faultsOf(use: UseOfRights, stateDir: string, unused: readonly string[]): string[] {
  if (!use.isTelling) return [`${auditLogOf(stateDir)} holds no requests of both manager and syncer`];
  return [
    ...use.refused.map((each) => `${each}: add it to deploy/chart/rights, or do not ask for it`),
    ...unused
      .filter((right) => !exceptions.has(right))
      .map(
        (right) =>
          `${right}: nobody used this right; take it out of deploy/chart/rights, or say why it stays`,
      ),
  ];
}

async function useOfRights(stateDir: string, options: UseOptions = {}): Promise<UseOfRights> {
  const [manager, syncer, gateway] = await Promise.all([
    loadRights(chartDirectory, 'manager'),
    loadRights(chartDirectory, 'syncer'),
    loadRights(chartDirectory, 'gateway'),
  ]);
  const use = new UseOfRights({ manager, syncer, gateway }, options);
  for await (const asked of readAuditLog(auditLogOf(stateDir))) use.observe(asked);
  return use;
}
