import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { loadRights, type PolicyRule, programs, rightsManifests } from '../../vc-manager/rights.ts';

const chart = join(import.meta.dirname, '..', '..', 'deploy', 'chart');

describe('the rights of manager, syncer and gateway', async () => {
  const [manager, syncer, gateway] = await Promise.all([
    loadRights(chart, 'manager'),
    loadRights(chart, 'syncer'),
    loadRights(chart, 'gateway'),
  ]);
  const rights = { manager, syncer, gateway };
  const every = programs.flatMap((program) =>
    [
      ...rights[program].cluster,
      ...(rights[program].namespace ?? []),
      ...(rights[program].kubernetesDriver ?? []),
    ].map((rule) => ({ program, rule })),
  );
  const may = (rules: readonly PolicyRule[], verb: string, group: string, resource: string): boolean =>
    rules.some(
      (rule) =>
        rule.apiGroups.includes(group) && rule.resources.includes(resource) && rule.verbs.includes(verb),
    );

  it('name everything: no group, resource or verb is a star', () => {
    const stars = every.filter(({ rule }) =>
      [...rule.apiGroups, ...rule.resources, ...rule.verbs].some((word) => word.includes('*')),
    );
    expect(stars).toEqual([]);
  });

  it('give nobody more than it has: no roles, no impersonation, no tokens of others', () => {
    const dangerous = every.filter(
      ({ rule }) =>
        rule.apiGroups.includes('rbac.authorization.k8s.io') ||
        rule.verbs.some((verb) => ['escalate', 'bind', 'impersonate', 'deletecollection'].includes(verb)) ||
        rule.resources.some((resource) => /^(serviceaccounts\/token|nodes\/.*)$/.test(resource)),
    );
    // The summaries of kubelets, for kubectl top.
    expect(dangerous.map(({ rule }) => rule)).toEqual([
      { apiGroups: [''], resources: ['nodes/proxy'], verbs: ['get'] },
    ]);
  });

  it('keep Leases to the namespace of Skerry', () => {
    for (const program of programs)
      expect(may(rights[program].cluster, 'update', 'coordination.k8s.io', 'leases')).toBe(false);
  });

  it('become roles that are bound to one user', () => {
    const objects = rightsManifests({
      program: 'manager',
      rights: rights.manager,
      namespace: 'n',
      labels: {},
    });
    expect(objects.map(({ kind, metadata }) => [kind, metadata.name, metadata.namespace])).toEqual([
      ['ClusterRole', 'skerry-manager', undefined],
      ['ClusterRoleBinding', 'skerry-manager', undefined],
      ['Role', 'skerry-manager', 'n'],
      ['RoleBinding', 'skerry-manager', 'n'],
    ]);
    expect(objects[1]?.['subjects']).toEqual([
      { apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: 'skerry-manager' },
    ]);
  });
});
