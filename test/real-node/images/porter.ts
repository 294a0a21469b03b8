import { createAuthority, issue, type KeyPair } from '../../../vc-manager/pki/index.ts';

/** What agnhost's port server shows when a test asks it for TLS on localhost. */
export async function porterPair(): Promise<KeyPair> {
  const authority = await createAuthority({ commonName: 'agnhost porter' });
  return issue(authority, {
    commonName: 'localhost',
    dnsNames: ['localhost'],
    ipAddresses: ['127.0.0.1'],
    usage: ['server'],
  });
}
