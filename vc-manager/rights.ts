import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse } from 'yaml';
import { z } from 'zod';
import { type KubeClient, type KubeObject, type Resource, resource, resources } from '../kube/index.ts';

const words = z.array(z.string().min(1)).min(1);

const ruleSchema = z.strictObject({
  apiGroups: z.array(z.string()).min(1),
  resources: words,
  resourceNames: words.optional(),
  verbs: words,
});

const rightsSchema = z.strictObject({
  cluster: z.array(ruleSchema).min(1),
  namespace: z.array(ruleSchema).min(1).optional(),
  /** What the kubernetes driver needs beside the rest, in all namespaces. */
  kubernetesDriver: z.array(ruleSchema).min(1).optional(),
});

/** A rule of RBAC. */
export type PolicyRule = z.infer<typeof ruleSchema>;

/** What one of Skerry's programs may do in the super cluster: `cluster` in all namespaces, `namespace` in Skerry's own. */
export type Rights = z.infer<typeof rightsSchema>;

export const programs = ['manager', 'syncer', 'gateway'] as const;
export type ProgramName = (typeof programs)[number];

/** From the chart, the one place where rights are written down. `directory`: that of the chart. */
export async function loadRights(directory: string, program: ProgramName): Promise<Rights> {
  const text = await readFile(join(directory, 'rights', `${program}.yaml`), 'utf8');
  return rightsSchema.parse(parse(text));
}

const rbac = 'rbac.authorization.k8s.io';
/** Label of ClusterRoles that the syncer has too: what an operator lets it do with custom resources. */
export const aggregateLabel = 'skerry.dev/aggregate-to-syncer';

interface RightsOptions {
  program: ProgramName;
  rights: Rights;
  /** Skerry's own. */
  namespace: string;
  labels: Record<string, string>;
}

/** The user of the super cluster, and the name of the roles, of each program in the local stack. */
export function userOf(program: ProgramName): string {
  return `skerry-${program}`;
}

/** ClusterRole, Role and their bindings to the program's user. */
export function rightsManifests({ program, rights, namespace, labels }: RightsOptions): KubeObject[] {
  const name = userOf(program);
  const subjects = [{ apiGroup: rbac, kind: 'User', name }];
  const bound = (
    kind: string,
    roleKind: string,
    metadata: KubeObject['metadata'],
    role = name,
  ): KubeObject => ({
    apiVersion: `${rbac}/v1`,
    kind,
    metadata: { ...metadata, labels },
    roleRef: { apiGroup: rbac, kind: roleKind, name: role },
    subjects,
  });
  const role = (kind: string, metadata: KubeObject['metadata'], rules: object): KubeObject => ({
    apiVersion: `${rbac}/v1`,
    kind,
    metadata: { ...metadata, labels },
    ...rules,
  });
  return [
    role('ClusterRole', { name }, { rules: rights.cluster }),
    bound('ClusterRoleBinding', 'ClusterRole', { name }),
    ...(rights.namespace === undefined
      ? []
      : [
          role('Role', { name, namespace }, { rules: rights.namespace }),
          bound('RoleBinding', 'Role', { name, namespace }),
        ]),
    ...(program === 'syncer' ? customResources() : []),
  ];

  /** The rules are filled in by the super cluster, from every ClusterRole with the label. */
  function customResources(): KubeObject[] {
    const aggregated = `${name}-custom-resources`;
    const clusterRoleSelectors = [{ matchLabels: { [aggregateLabel]: 'true' } }];
    return [
      role('ClusterRole', { name: aggregated }, { aggregationRule: { clusterRoleSelectors } }),
      bound('ClusterRoleBinding', 'ClusterRole', { name: aggregated }, aggregated),
    ];
  }
}

const kinds: Record<string, Resource> = {
  ClusterRole: resource(rbac, 'v1', 'clusterroles', 'ClusterRole', false),
  ClusterRoleBinding: resource(rbac, 'v1', 'clusterrolebindings', 'ClusterRoleBinding', false),
  Role: resource(rbac, 'v1', 'roles', 'Role', true),
  RoleBinding: resource(rbac, 'v1', 'rolebindings', 'RoleBinding', true),
};

const apply = { type: 'apply', fieldManager: 'skerry-local-stack', force: true } as const;

interface GrantOptions {
  /** Of the chart, which says what the programs may do. */
  chartDirectory: string;
  /** Skerry's own; made where it is missing. */
  namespace: string;
  labels: Record<string, string>;
  signal: AbortSignal;
}

/** Grants the users of manager, syncer and gateway what the chart grants their ServiceAccounts, and no more. */
export async function grantRights(client: KubeClient, options: GrantOptions): Promise<void> {
  const { chartDirectory, namespace, labels, signal } = options;
  const own = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace, labels } };
  await client.patch(resources.namespaces, { name: namespace }, own, { ...apply, signal });
  for (const program of programs) {
    const rights = await loadRights(chartDirectory, program);
    for (const object of rightsManifests({ program, rights, namespace, labels })) {
      const { name = '', namespace: place } = object.metadata;
      const ref = place === undefined ? { name } : { name, namespace: place };
      await client.patch(kinds[object.kind ?? ''] as Resource, ref, object, { ...apply, signal });
    }
  }
}
