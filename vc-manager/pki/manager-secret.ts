import {
  isAlreadyExists,
  isConflict,
  isNotFound,
  type KubeClient,
  type KubeObject,
  type ObjectRef,
  resources,
} from '../../kube/index.ts';
import { damagedAuthority } from './errors.ts';
import { type ManagerPki, type ManagerPkiOptions, managerPkiOf, managerPkiSpec } from './manager.ts';
import { ensurePkiSet, type PkiData } from './pki-set.ts';

export interface ManagerPkiSecretOptions extends ManagerPkiOptions {
  readonly client: KubeClient;
  readonly namespace: string;
  /** Secret with all of it, which nobody but the manager may read. */
  readonly name: string;
  /** Secret with what the datastore itself needs: its server certificate and the authority of its clients. */
  readonly etcdName: string;
  readonly labels: Record<string, string>;
  readonly signal: AbortSignal;
}

interface Secret extends KubeObject {
  data?: Record<string, string>;
}

/**
 * Keeps the manager's PKI in a Secret of the super cluster; safe to call at any time and by several managers at once:
 * of two that make it one wins, and the other takes what the winner made. Throws PkiError `damaged-authority` when
 * the Secret has gone from under a datastore that knows its authority, and what the client throws.
 */
export async function ensureManagerPkiSecret(options: ManagerPkiSecretOptions): Promise<ManagerPki> {
  const { client, namespace, name, etcdName, now, signal } = options;
  for (;;) {
    // In this order: it is written after the other one.
    const etcd = await find(client, { namespace, name: etcdName }, signal);
    const stored = await find(client, { namespace, name }, signal);
    if (stored === undefined && etcd !== undefined) {
      const why = `the Secret ${namespace}/${name} is gone, and the datastore still trusts it (Secret ${etcdName})`;
      throw damagedAuthority('etcd-ca', why);
    }
    const ensured = await ensurePkiSet(stored && decoded(stored), managerPkiSpec(options), now);
    if (ensured.changed && !(await write(options, stored, ensured.data))) continue;
    const pki = managerPkiOf(`${namespace}/${name}`, ensured);
    if (await publish(options, etcd, pki)) return pki;
  }
}

/** False: somebody else was faster. */
async function publish(
  { client, namespace, etcdName, labels, signal }: ManagerPkiSecretOptions,
  stored: Secret | undefined,
  { etcdCa, etcdServer }: ManagerPki,
): Promise<boolean> {
  const data = { 'ca.crt': etcdCa.certPem, 'tls.crt': etcdServer.certPem, 'tls.key': etcdServer.keyPem };
  const present = stored && decoded(stored);
  if (present?.['ca.crt'] === data['ca.crt'] && present['tls.crt'] === data['tls.crt']) return true;
  const secret = { metadata: { namespace, name: etcdName, labels }, type: 'kubernetes.io/tls' };
  return put(client, stored, { ...secret, data: encoded(data) }, signal);
}

function write(
  { client, namespace, name, labels, signal }: ManagerPkiSecretOptions,
  stored: Secret | undefined,
  data: PkiData,
): Promise<boolean> {
  const secret = { metadata: { namespace, name, labels }, type: 'Opaque', data: encoded(data) };
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

async function find(client: KubeClient, ref: ObjectRef, signal: AbortSignal): Promise<Secret | undefined> {
  try {
    return await client.get<Secret>(resources.secrets, ref, { signal });
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

function decoded({ data = {} }: Secret): PkiData {
  return Object.fromEntries(
    Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]),
  );
}

function encoded(data: PkiData): Record<string, string> {
  return Object.fromEntries(
    Object.entries(data).map(([key, value]) => [key, Buffer.from(value).toString('base64')]),
  );
}
