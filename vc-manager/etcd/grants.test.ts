import { describe, expect, it } from 'vitest';
import { tenantOfUser, tenantPrefix, tenantUser } from './grants.ts';

describe('names of a tenant in the datastore', () => {
  it('end the prefix with a slash, so that one id is never the beginning of another', () => {
    expect(tenantPrefix('ab').startsWith(tenantPrefix('a'))).toBe(false);
    expect(tenantPrefix('a')).toBe('/tenants/a/');
  });

  it('lead from the user back to the tenant, and from no other user to any', () => {
    expect(tenantOfUser(tenantUser('k3x9q2m7ab'))).toBe('k3x9q2m7ab');
    expect(tenantOfUser('root')).toBeUndefined();
    expect(tenantOfUser('tenant-')).toBeUndefined();
  });

  it.each(['', '/', 'a/b', '..', 'A', 'a b', '-a', 'a-', 'é', 'a'.repeat(51)])('refuse the id %j', (id) => {
    expect(() => tenantUser(id)).toThrow(
      expect.objectContaining({ code: 'InvalidTenantId', retryable: false }),
    );
    expect(() => tenantPrefix(id)).toThrow(expect.objectContaining({ code: 'InvalidTenantId' }));
  });
});
