import { describe, expect, it } from 'vitest';
import { defaultQuota } from './default-policy.ts';
import { effectiveQuotaSchema, isLimitedResource, quotaSchema, usedQuotaSchema } from './quota.ts';

describe('what a quota limits', () => {
  it.each([
    ...Object.keys(defaultQuota),
    'limits.memory',
    'gold.storageclass.storage.k8s.io/requests.storage',
    'gold.storageclass.storage.k8s.io/persistentvolumeclaims',
    'count/widgets.example.com',
  ])('is %s', (resource) => expect(isLimitedResource(resource)).toBe(true));

  it.each([
    '',
    'pod',
    'pods ',
    'requests.gpu',
    'limits.storage',
    'services.clusterips',
    'datastore.users',
    'count/',
    'count/Widgets',
    'storageclass.storage.k8s.io/requests.storage',
    'gold.storageclass.storage.k8s.io/limits.storage',
    `count/${'a'.repeat(254)}`,
    `constructor`,
  ])('is not %j', (resource) => expect(isLimitedResource(resource)).toBe(false));
});

describe('a quantity of a quota', () => {
  const takes = (schema: typeof quotaSchema, text: string): boolean =>
    schema.safeParse({ pods: text }).success;

  it('is a number with a unit, and a star only where it is asked for', () => {
    for (const text of ['0', '20', '500m', '64Gi', '1.5', '8Ti', '50T']) {
      expect([text, takes(quotaSchema, text), takes(effectiveQuotaSchema, text)]).toEqual([text, true, true]);
    }
    expect([takes(quotaSchema, '*'), takes(effectiveQuotaSchema, '*')]).toEqual([true, false]);
    for (const text of ['', '-1', '1e3', '1 Gi', '1Gb', '1.', '.5', '1234567890123456', '**'])
      expect([text, takes(quotaSchema, text)]).toEqual([text, false]);
  });

  it('that is used may be finer and larger than any limit', () => {
    for (const text of ['1n', '9u', '1Ei', '9'.repeat(48)])
      expect([text, takes(usedQuotaSchema, text), takes(quotaSchema, text)]).toEqual([text, true, false]);
  });
});
