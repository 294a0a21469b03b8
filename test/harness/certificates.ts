import 'reflect-metadata';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:tls';
import { Pkcs10CertificateRequestGenerator } from '@peculiar/x509';
import { expect } from 'vitest';
import {
  Connection,
  type ConnectionOptions,
  connectionFromSecret,
  KubeClient,
  type KubeObject,
  resources,
} from '../../kube/index.ts';
import { issue, type KeyPair, type LeafRequest } from '../../vc-manager/pki/index.ts';
import { type ReplaceManager, withManagerKilled } from './managers.ts';
import { patiently, patientRequests } from './poll.ts';
import type { Tenant, World } from './world.ts';

const usages: Record<string, 'client' | 'server'> = {
  '1.3.6.1.5.5.7.3.1': 'server',
  '1.3.6.1.5.5.7.3.2': 'client',
};

/** Where a Secret of the tenant is: its kubeconfig with the VirtualCluster, all others in Skerry's own namespace. */
export function tenantSecretRef({ id, ref }: Tenant, which: string): { namespace: string; name: string } {
  return which === 'kubeconfig'
    ? { namespace: ref.namespace, name: `${ref.name}-kubeconfig` }
    : { namespace: 'skerry-system', name: `tenant-${id}-${which}` };
}

/** A Secret that belongs to the tenant, decoded: `pki`, `kubeconfig` or `syncer`. */
export async function tenantSecret(
  world: World,
  tenant: Tenant,
  which: string,
): Promise<Record<string, string>> {
  const secret = await world.superCluster.client.get<KubeObject & { data: Record<string, string> }>(
    resources.secrets,
    tenantSecretRef(tenant, which),
  );
  return Object.fromEntries(
    Object.entries(secret.data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]),
  );
}

/** Changes entries of the tenant's PKI Secret, and nothing else. */
export async function changePki(
  world: World,
  tenant: Tenant,
  entries: Record<string, string>,
): Promise<void> {
  const data = Object.fromEntries(
    Object.entries(entries).map(([key, value]) => [key, Buffer.from(value).toString('base64')]),
  );
  await world.superCluster.client.patch(
    resources.secrets,
    tenantSecretRef(tenant, 'pki'),
    { data },
    { type: 'merge' },
  );
}

/** What the tenant's API server shows to whoever connects. */
export async function servedCertificate({ kubeconfig }: Tenant): Promise<X509Certificate> {
  const { server, ca } = connectionFromSecret(kubeconfig);
  const { hostname, port } = new URL(server);
  const socket = connect({ host: hostname, port: Number(port || 443), ...(ca === undefined ? {} : { ca }) });
  try {
    await once(socket, 'secureConnect');
    const served = socket.getPeerX509Certificate();
    if (served === undefined) throw new Error('no certificate was shown');
    return served;
  } finally {
    socket.destroy();
  }
}

/** Has all certificates issued anew and waits for the end of it: from then on the API server shows its new one. */
export async function renewAll(world: World, tenant: Tenant): Promise<void> {
  const was = await servedCertificate(tenant);
  const { exitCode, stderr } = await world.cli(['certificates', 'renew', tenant.name, '--wait'], {
    timeoutMs: 400_000,
  });
  if (exitCode !== 0) throw new Error(`"certificates renew" ended with ${exitCode}: ${stderr}`);
  const stored = new X509Certificate((await tenantSecret(world, tenant, 'pki'))['apiserver.crt'] ?? '');
  const is = await servedCertificate(tenant);
  if (stored.serialNumber === was.serialNumber) throw new Error('no certificate was issued');
  if (is.serialNumber !== stored.serialNumber)
    throw new Error('another certificate is shown than was issued');
}

/** The status code of what an API server answers to these credentials. */
export async function answerTo(options: ConnectionOptions): Promise<unknown> {
  const connection = new Connection({ ...options, ...patientRequests });
  try {
    await new KubeClient(connection).raw('GET', '/api/v1/namespaces/default');
    return 200;
  } catch (error) {
    return (error as { code: unknown }).code;
  } finally {
    await connection.close();
  }
}

/**
 * Has new authorities sign from now on, though the manager is killed meanwhile: who has only what was handed out before is
 * refused. Gives the tenant with its new kubeconfig.
 */
export async function revokeAllCredentials(
  world: World,
  tenant: Tenant,
  replace: ReplaceManager,
): Promise<Tenant> {
  const { name } = tenant;
  await withManagerKilled(world, name, { kind: 'authority-renewal', replace }, async () => {
    const renew = ['certificates', 'renew', name, '--ca', '--now', '--wait', '--yes'];
    const { exitCode, stderr } = await world.cli(renew);
    expect(exitCode, stderr).toBe(0);
  });
  const renewed = await world.openTenant(name);
  const { cert, key } = connectionFromSecret(tenant.kubeconfig);
  const current = connectionFromSecret(renewed.kubeconfig);
  expect(await answerTo({ ...current, cert, key })).toBe(401);
  expect(await answerTo(current)).toBe(200);
  return renewed;
}

/**
 * As if so much time had gone by that these certificates are due: each is issued again, by the same authority and for
 * the same life, of which seven tenths are over. The status says so, as the manager would have written it then.
 */
export async function ageCertificates(world: World, tenant: Tenant, names: readonly string[]): Promise<void> {
  const pki = await tenantSecret(world, tenant, 'pki');
  const aged = await Promise.all(names.map((name) => agedPair(pki, name)));
  await changePki(world, tenant, Object.assign({}, ...aged));
  const status = { certificatesDue: new Date(Date.now() - 1_000).toISOString() };
  await world.superCluster.kubectl(
    ...['patch', 'virtualcluster', tenant.name, '--subresource=status', '--type=merge'],
    ...['-p', JSON.stringify({ status })],
  );
}

async function agedPair(pki: Record<string, string>, name: string): Promise<Record<string, string>> {
  const certificate = new X509Certificate(pki[`${name}.crt`] ?? '');
  const lifeMs = certificate.validToDate.getTime() - certificate.validFromDate.getTime();
  const pair = await issue(issuerOf(pki, certificate), {
    ...requestOf(certificate),
    validForMs: lifeMs,
    now: new Date(Date.now() - lifeMs * 0.7),
  });
  return { [`${name}.crt`]: pair.certPem, [`${name}.key`]: pair.keyPem };
}

function issuerOf(pki: Record<string, string>, certificate: X509Certificate): KeyPair {
  for (const [entry, certPem] of Object.entries(pki)) {
    const keyPem = pki[entry.replace(/crt$/, 'key')];
    if (!entry.endsWith('-ca.crt') || keyPem === undefined) continue;
    if (certificate.checkIssued(new X509Certificate(certPem))) return { certPem, keyPem };
  }
  throw new Error(`the authority of ${certificate.subject} is not in the Secret`);
}

function requestOf(certificate: X509Certificate): LeafRequest {
  const subject = certificate.toLegacyObject().subject as unknown as Record<string, string | string[]>;
  const names = certificate.subjectAltName?.split(', ') ?? [];
  const named = (kind: string): string[] =>
    names.filter((each) => each.startsWith(kind)).map((each) => each.slice(kind.length));
  return {
    commonName: [subject['CN'] ?? ''].flat().join(),
    organizations: [subject['O'] ?? []].flat(),
    dnsNames: named('DNS:'),
    ipAddresses: named('IP Address:'),
    usage: (certificate.keyUsage ?? []).flatMap((oid) => usages[oid] ?? []),
  };
}

/** A client as a user of this name, whose certificate the tenant has approved and its control plane has signed. */
export async function signedUser(tenant: Tenant, user: string): Promise<KubeClient> {
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
  const keys = await crypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const request = await Pkcs10CertificateRequestGenerator.create({
    name: [{ CN: [user] }],
    keys,
    signingAlgorithm: algorithm,
  });
  const name = user.replaceAll(':', '-');
  await tenant.apply({
    apiVersion: 'certificates.k8s.io/v1',
    kind: 'CertificateSigningRequest',
    metadata: { name },
    spec: {
      request: Buffer.from(request.toString('pem')).toString('base64'),
      signerName: 'kubernetes.io/kube-apiserver-client',
      usages: ['client auth'],
      expirationSeconds: 3600,
    },
  });
  await tenant.kubectl('certificate', 'approve', name);
  await tenant.kubectl('wait', `csr/${name}`, '--for=jsonpath={.status.certificate}', patiently);
  const cert = await tenant.kubectl('get', 'csr', name, '-o', 'jsonpath={.status.certificate}');
  const key = Buffer.from(await crypto.subtle.exportKey('pkcs8', keys.privateKey)).toString('base64');
  const { cert: _, key: __, ...place } = connectionFromSecret(tenant.kubeconfig);
  return new KubeClient(
    new Connection({
      ...place,
      ...patientRequests,
      cert: Buffer.from(cert, 'base64').toString(),
      key: `-----BEGIN PRIVATE KEY-----\n${key}\n-----END PRIVATE KEY-----\n`,
    }),
  );
}
