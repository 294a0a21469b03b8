import { beforeAll, describe, expect, it } from 'vitest';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import { formerSecretNames } from '../../api/names.ts';
import { ApiError, encodeSecretData, type ObjectRef, type Resource } from '../../kube/index.ts';
import { tenantUser } from '../etcd/grants.ts';
import {
  type CertificateAuthority,
  createAuthority,
  issue,
  type KeyPair,
  type LeafRequest,
} from '../pki/index.ts';
import { assertIdClaim } from './id-claim.ts';
import type { Services } from './services.ts';
import type { Tenant } from './tenant.ts';

const id = 'left000001';
const annotations = { [annotationKeys.id]: id };
const tenant = {
  key: 'team/a',
  uid: 'uid-a',
  ref: { namespace: 'team', name: 'a' },
  signal: new AbortController().signal,
  vc: { metadata: { annotations } },
} as unknown as Tenant;

describe('an id that only an annotation claims', () => {
  let etcdCa: CertificateAuthority;
  let own: KeyPair;
  let forged: KeyPair;
  beforeAll(async () => {
    etcdCa = await createAuthority({ commonName: 'datastore' });
    const request: LeafRequest = { commonName: tenantUser(id), usage: ['client'] };
    own = await issue(etcdCa, request);
    forged = await issue(await createAuthority({ commonName: 'datastore' }), request);
  });

  type Left = Partial<Record<'users' | 'roles' | 'prefixes' | 'process' | 'compose', string[]>>;

  /** `beside`: the pair in the Secret that its owner may write; absent: there is none. */
  const claim = (left: Left, beside?: KeyPair): Promise<void> => {
    const { users = [], roles = [], prefixes = [], process = [], compose = [] } = left;
    const get = async ({ plural }: Resource, { namespace, name }: ObjectRef) => {
      if (beside === undefined || namespace !== 'team' || name !== formerSecretNames('a').pki)
        throw new ApiError(404, undefined, `get ${plural}`);
      const data = encodeSecretData({ 'etcd-client.crt': beside.certPem, 'etcd-client.key': beside.keyPem });
      return { metadata: { name, labels: { [labelKeys.virtualCluster]: 'a' }, annotations }, data };
    };
    return assertIdClaim(
      tenant,
      {
        client: { get },
        settings: { namespace: 'skerry-system' },
        datastore: { listTenants: async () => ({ users, roles, prefixes }) },
        drivers: new Map([
          ['process', { list: async () => process }],
          ['compose', { list: async () => compose }],
        ]),
        managerPki: async () => ({ etcdCa }),
      } as unknown as Services,
      id,
    );
  };

  it.each(['users', 'roles', 'prefixes', 'process', 'compose'] as const)(
    'needs its key where nothing but an entry in %s is left of it',
    async (place) => {
      await expect(claim({ [place]: ['another', id] })).rejects.toMatchObject({ code: 'IdNotProven' });
      await claim({ [place]: ['another', id] }, own);
      await claim({ [place]: ['another'] });
    },
  );

  it('is not proven by a certificate of an authority that its owner has made', async () => {
    await expect(claim({ users: [id] }, forged)).rejects.toMatchObject({ code: 'IdNotProven' });
  });

  it('is not proven by its certificate, which is no secret, without the key', async () => {
    const { keyPem } = forged;
    await expect(claim({ users: [id] }, { ...own, keyPem })).rejects.toMatchObject({ code: 'IdNotProven' });
  });

  it('is not proven by what cannot be read', async () => {
    await expect(claim({ users: [id] }, { certPem: '', keyPem: '' })).rejects.toMatchObject({
      code: 'IdNotProven',
    });
  });
});
