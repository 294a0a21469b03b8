import { describe, expect, it } from 'vitest';
import { type StoragePlanOptions, storagePlan } from './storage-plan.ts';

const pem = { certPem: 'certificate', keyPem: 'key' };

function environment(packageVersion: string | undefined): Record<string, string> | undefined {
  const options = {
    pki: { servingCa: pem, kwok: pem },
    ports: { 'super-cluster': 6443 },
    bindAddress: '127.0.0.1',
    packageVersion,
  };
  return storagePlan(options as unknown as StoragePlanOptions)[0]?.env;
}

describe('storagePlan', () => {
  it('differs between versions of this package, so that a new one is started', () => {
    expect(environment('1.2.3')).not.toEqual(environment('1.2.4'));
    expect(environment(undefined)).toEqual({});
  });
});
