import type { Tenant, World } from '../../harness/world.ts';

/**
 * Two tenants that suites share which need none to themselves: each stays in namespaces of its own, of the same names in
 * both, and says of nothing but those how it is.
 */
export function joinTenants(world: World, ...namespaces: string[]): Promise<[Tenant, Tenant]> {
  return Promise.all([world.joinTenant('blue', ...namespaces), world.joinTenant('green', ...namespaces)]);
}
