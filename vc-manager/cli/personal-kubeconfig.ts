import { randomBytes } from 'node:crypto';
import { apiVersion, internalSecretNames } from '../../api/names.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import {
  type Clock,
  type KubeClient,
  type KubeObject,
  metaTime,
  printable,
  renderKubeconfig,
  resources,
} from '../../kube/index.ts';
import { adminGroup, issue, trustOf } from '../pki/index.ts';
import { CliError } from './errors.ts';

/** Long enough for a look around, and nothing revokes it. */
const validForMs = 60 * 60_000;

/**
 * A kubeconfig for the tenant in the name of the caller, as the super cluster authenticates it: audit logs and webhooks of the
 * tenant see who acts. An event on the VirtualCluster says so before it is given out; without the event there is none.
 */
export async function personalKubeconfig(
  client: KubeClient,
  vc: VirtualCluster,
  { clock, signal }: { clock: Pick<Clock, 'now'>; signal: AbortSignal },
): Promise<string> {
  const { name = '', namespace = '' } = vc.metadata;
  const { id, endpoint, gateway, syncerSecret } = vc.status ?? {};
  if (id === undefined || endpoint === undefined || syncerSecret?.namespace === undefined) {
    throw new CliError(
      'NotReady',
      `${name} has no control plane of this version yet: see "vc-manager describe ${name} -n ${namespace}"`,
    );
  }
  const ref = { namespace: syncerSecret.namespace, name: internalSecretNames(id).pki };
  const [caller, pki] = await Promise.all([whoAmI(client, signal), readPki(client, ref, signal)]);
  const user = `skerry:operator:${caller}`;
  const now = new Date(clock.now());
  const { certPem, keyPem } = await issue(
    { certPem: pki.required('client-ca.crt'), keyPem: pki.required('client-ca.key') },
    { commonName: user, organizations: [adminGroup], usage: ['client'], validForMs, now },
  );
  const until = new Date(now.getTime() + validForMs);
  await recordAccess(
    client,
    vc,
    `${caller} has a kubeconfig as ${user}, until ${metaTime(until)}.`,
    now,
    signal,
  );
  const clusterName = `${namespace}/${name}`;
  return renderKubeconfig({
    clusterName,
    server: gateway?.server ?? endpoint,
    // A port of the tenant's own needs no name.
    tlsServerName: gateway?.server.endsWith(`:${gateway.port}`) === true ? undefined : gateway?.serverName,
    ca: trustOf(pki.data).servingCa,
    user: `${clusterName}/${user}`,
    cert: certPem,
    key: keyPem,
  });
}

/** Throws `NotReady` on an entry that is missing. */
async function readPki(
  client: KubeClient,
  ref: { namespace: string; name: string },
  signal: AbortSignal,
): Promise<{ data: Record<string, string>; required: (entry: string) => string }> {
  const { data = {} } = await client.get<KubeObject & { data?: Record<string, string> }>(
    resources.secrets,
    ref,
    { signal },
  );
  const decoded = Object.fromEntries(
    Object.entries(data).map(([entry, encoded]) => [entry, Buffer.from(encoded, 'base64').toString()]),
  );
  const required = (entry: string): string => {
    if (!decoded[entry])
      throw new CliError('NotReady', `Secret ${ref.namespace}/${ref.name} has no ${entry}`);
    return decoded[entry];
  };
  required('serving-ca.crt');
  return { data: decoded, required };
}

async function whoAmI(client: KubeClient, signal: AbortSignal): Promise<string> {
  const body = { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' };
  const path = '/apis/authentication.k8s.io/v1/selfsubjectreviews';
  const review = (await client.raw('POST', path, { body, signal })) as {
    status?: { userInfo?: { username?: string } };
  };
  const username = review.status?.userInfo?.username;
  if (!username) throw new CliError('NotReady', 'the super cluster does not say who you are');
  return username;
}

async function recordAccess(
  client: KubeClient,
  { metadata }: VirtualCluster,
  message: string,
  now: Date,
  signal: AbortSignal,
): Promise<void> {
  const { name = '', namespace = '', uid = '' } = metadata;
  const { kind } = resources.virtualClusters;
  await client.create(
    resources.events,
    {
      metadata: { namespace, name: `${name}.${randomBytes(8).toString('hex')}` },
      involvedObject: { apiVersion, kind, namespace, name, uid },
      type: 'Normal',
      reason: 'AdminAccess',
      message: printable(message, 1_000),
      source: { component: 'vc-manager' },
      firstTimestamp: metaTime(now),
      lastTimestamp: metaTime(now),
      count: 1,
    },
    { signal },
  );
}
