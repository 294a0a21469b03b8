import {
  decodeSecretData,
  encodeSecretData,
  ignoreNotFound,
  isAlreadyExists,
  isConflict,
  isNotFound,
  type KubeClient,
  resources,
  type Secret,
} from '../../kube/index.ts';
import { type CertificateAuthority, type KeyPair, subjectNames } from './certificates.ts';
import { ensurePkiDirectory } from './directory.ts';
import { damagedAuthority } from './errors.ts';
import { etcdServerLeaf, loopbackHosts } from './leaf-certificates.ts';
import {
  type EnsuredPki,
  ensurePkiSet,
  type PkiData,
  type PkiSpec,
  pairOf,
  type Renewal,
} from './pki-set.ts';

export interface ManagerPkiOptions {
  /** Hosts under which API servers and the manager reach the tenants' datastore. Default: this machine's loopback. */
  readonly etcdHosts?: readonly string[];
  /** Hosts under which tenants' API servers reach the kubelet proxy. Default: this machine's loopback. */
  readonly kubeletProxyHosts?: readonly string[];
  readonly now: Date;
}

/** What belongs to the manager and to no tenant. */
export interface ManagerPki {
  /** Signs the tenants' datastore clients. */
  readonly etcdCa: CertificateAuthority;
  /** For clients and as server: etcd's JSON gateway dials its own server with the server certificate. */
  readonly etcdServer: KeyPair;
  /**
   * The manager's client certificate for the datastore's JSON gateway, which refuses certificates with a common
   * name once authentication is on; the manager identifies itself by the root password.
   */
  readonly etcdManager: KeyPair;
  readonly etcdRootPassword: string;
  /** Signs the kubelet proxy alone; no CSR signer uses it. */
  readonly kubeletProxyCa: CertificateAuthority;
  readonly kubeletProxy: KeyPair;
  readonly renewals: readonly Renewal[];
  readonly renewAt: Date;
}

/** By this name a tenant's API server knows the kubelet proxy as the server of its metrics API. */
const metricsServiceName = 'skerry-metrics.kube-system.svc';

/** Keeps the manager's PKI as files in `directory`; safe to call at every start and from several processes. */
export async function ensureManagerPki(directory: string, options: ManagerPkiOptions): Promise<ManagerPki> {
  return managerPkiOf(await ensurePkiDirectory(directory, managerPkiSpec(options), options.now));
}

function managerPkiSpec(options: ManagerPkiOptions): PkiSpec {
  return {
    authorities: {
      'etcd-ca': { commonName: 'skerry datastore CA' },
      'kubelet-proxy-ca': { commonName: 'skerry kubelet-proxy CA' },
    },
    passwords: ['etcd-root'],
    leafs: {
      'etcd-server': etcdServerLeaf(options.etcdHosts ?? loopbackHosts),
      'etcd-manager': {
        authority: 'etcd-ca',
        commonName: '',
        organizations: ['skerry:manager'],
        usage: ['client'],
      },
      'kubelet-proxy': {
        authority: 'kubelet-proxy-ca',
        commonName: 'skerry kubelet-proxy',
        usage: ['server'],
        ...subjectNames([...(options.kubeletProxyHosts ?? loopbackHosts), metricsServiceName]),
      },
    },
  };
}

function managerPkiOf({ data, renewals, renewAt }: EnsuredPki): ManagerPki {
  return {
    etcdCa: pairOf(data, 'etcd-ca'),
    etcdServer: pairOf(data, 'etcd-server'),
    etcdManager: pairOf(data, 'etcd-manager'),
    etcdRootPassword: data['etcd-root.password'] ?? '',
    kubeletProxyCa: pairOf(data, 'kubelet-proxy-ca'),
    kubeletProxy: pairOf(data, 'kubelet-proxy'),
    renewals,
    renewAt,
  };
}

export interface ManagerPkiSecretOptions extends ManagerPkiOptions {
  readonly client: KubeClient;
  readonly namespace: string;
  /** Secret with all of it, which only the manager may read. */
  readonly name: string;
  /** Secret with what the datastore itself needs: its server certificate and the authority of its clients. */
  readonly etcdName: string;
  readonly labels: Record<string, string>;
  readonly signal: AbortSignal;
}

/**
 * Keeps the manager's PKI in a Secret of the super cluster; safe to call at any time and by several managers at once:
 * of two that make it one wins, and the other takes what the winner made. Throws PkiError `DamagedAuthority` when
 * the Secret has gone from under a datastore that knows its authority, and what the client throws.
 */
export async function ensureManagerPkiSecret(options: ManagerPkiSecretOptions): Promise<ManagerPki> {
  const { client, namespace, name, etcdName, now, signal } = options;
  const find = (secret: string): Promise<Secret | undefined> =>
    ignoreNotFound(client.get<Secret>(resources.secrets, { namespace, name: secret }, { signal }));
  for (;;) {
    // In this order: it is written after the other one.
    const etcd = await find(etcdName);
    const stored = await find(name);
    if (stored === undefined && etcd !== undefined) {
      const why = `the Secret ${namespace}/${name} is gone, and the datastore still trusts it (Secret ${etcdName})`;
      throw damagedAuthority('etcd-ca', why);
    }
    const ensured = await ensurePkiSet(stored && decodeSecretData(stored), managerPkiSpec(options), now);
    if (ensured.changed && !(await write(options, stored, ensured.data))) continue;
    const pki = managerPkiOf(ensured);
    if (await publish(options, etcd, pki)) return pki;
  }
}

/** False: another manager has written it meanwhile. */
async function publish(
  { client, namespace, etcdName, labels, signal }: ManagerPkiSecretOptions,
  stored: Secret | undefined,
  { etcdCa, etcdServer }: ManagerPki,
): Promise<boolean> {
  const data = { 'ca.crt': etcdCa.certPem, 'tls.crt': etcdServer.certPem, 'tls.key': etcdServer.keyPem };
  const present = stored && decodeSecretData(stored);
  if (present?.['ca.crt'] === data['ca.crt'] && present['tls.crt'] === data['tls.crt']) return true;
  const secret = { metadata: { namespace, name: etcdName, labels }, type: 'kubernetes.io/tls' };
  return put(client, stored, { ...secret, data: encodeSecretData(data) }, signal);
}

function write(
  { client, namespace, name, labels, signal }: ManagerPkiSecretOptions,
  stored: Secret | undefined,
  data: PkiData,
): Promise<boolean> {
  const secret = { metadata: { namespace, name, labels }, type: 'Opaque', data: encodeSecretData(data) };
  return put(client, stored, secret, signal);
}

async function put(
  client: KubeClient,
  stored: Secret | undefined,
  secret: Secret,
  signal: AbortSignal,
): Promise<boolean> {
  const { namespace, name = '' } = secret.metadata;
  try {
    if (stored === undefined) await client.create(resources.secrets, secret, { signal });
    else {
      const { uid, resourceVersion } = stored.metadata;
      const patch = { metadata: { uid, resourceVersion }, data: secret.data };
      await client.patch(resources.secrets, { namespace, name }, patch, { type: 'merge', signal });
    }
    return true;
  } catch (error) {
    if (isAlreadyExists(error) || isConflict(error) || (stored !== undefined && isNotFound(error)))
      return false;
    throw error;
  }
}
