import { createHash } from 'node:crypto';
import { internalSecretNames } from '../../api/names.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import {
  ApiError,
  type Clock,
  decodeSecretData,
  isAlreadyExists,
  type KubeClient,
  type KubeObject,
  metaTime,
  renderKubeconfig,
  resources,
} from '../../kube/index.ts';
import { virtualClusterEvent } from '../operator/events.ts';
import { adminGroup, issue, trustOf } from '../pki/index.ts';
import type { Cli, GlobalFlags } from './context.ts';
import { CliError } from './errors.ts';
import { withSuperCluster } from './super-cluster.ts';
import { adminKubeconfig, getVirtualCluster, validRef } from './virtual-clusters.ts';

interface Caller {
  readonly clock: Pick<Clock, 'now'>;
  readonly signal: AbortSignal;
  /** The user that the client acts for, if the super cluster knows it by another name. */
  readonly user?: string;
}

/**
 * A kubeconfig for the tenant's administrators: the stored one, or one in the caller's own name. An event on the
 * VirtualCluster says who has it. Where the caller may not write events, only the super cluster's audit log tells of the
 * stored one.
 */
export async function tenantKubeconfig(
  client: KubeClient,
  vc: VirtualCluster,
  caller: Caller,
  personal = false,
): Promise<string> {
  if (personal) return personalKubeconfig(client, vc, caller);
  const stored = await adminKubeconfig(client, vc, caller.signal);
  try {
    const username = await whoAmI(client, caller.signal);
    const { user = username } = caller;
    const who = user === username ? user : `${user} (as ${username})`;
    const message = `${who} has taken the stored kubeconfig of the tenant's administrators.`;
    await recordAccess(client, vc, { who, message, now: new Date(caller.clock.now()) }, caller.signal);
  } catch (error) {
    caller.signal.throwIfAborted();
    if (!(error instanceof ApiError || error instanceof CliError)) throw error;
  }
  return stored;
}

interface Flags extends GlobalFlags {
  namespace: string;
  personal?: boolean;
}

/** The same of the tenant that a command line names. */
export function namedTenantKubeconfig(cli: Cli, name: string, flags: Flags): Promise<string> {
  const ref = validRef(name, flags.namespace);
  return withSuperCluster(cli, flags, async (client) => {
    const vc = await getVirtualCluster(client, ref, cli.signal);
    return tenantKubeconfig(client, vc, cli, flags.personal);
  });
}

/** Long enough for a look around, and nothing revokes it. */
const validForMs = 60 * 60_000;

/**
 * A kubeconfig for the tenant in the name of the caller, as the super cluster authenticates it: audit logs and webhooks of the
 * tenant see who acts. An event on the VirtualCluster says so before it is given out; without the event there is none.
 */
async function personalKubeconfig(
  client: KubeClient,
  vc: VirtualCluster,
  { clock, signal }: Caller,
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
  const message = `${caller} has a kubeconfig as ${user}, until ${metaTime(until)}.`;
  await recordAccess(client, vc, { who: caller, message, now }, signal);
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
  const decoded = decodeSecretData(await client.get(resources.secrets, ref, { signal }));
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

/** One event for each that does the same, with the number of times. */
async function recordAccess(
  client: KubeClient,
  vc: VirtualCluster,
  { who, message, now }: { who: string; message: string; now: Date },
  signal: AbortSignal,
): Promise<void> {
  const { uid = '' } = vc.metadata;
  const suffix = createHash('sha256').update(`${uid}\n${who}\n${message}`).digest('hex').slice(0, 16);
  const event = virtualClusterEvent(vc, { reason: 'AdminAccess', message, now, suffix });
  const { namespace, name = '' } = event.metadata;
  const ref = { namespace, name };
  try {
    await client.create(resources.events, event, { signal });
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
    const { count = 1 } = await client.get<KubeObject & { count?: number }>(resources.events, ref, {
      signal,
    });
    const again = { count: count + 1, lastTimestamp: metaTime(now) };
    await client.patch(resources.events, ref, again, { type: 'merge', signal });
  }
}
