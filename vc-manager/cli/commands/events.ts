import type { Command } from 'commander';
import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import { type KubeClient, type KubeObject, messageOf, printable, resources } from '../../../kube/index.ts';
import { outputOption, tenantArgument } from '../command-line.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { ageSince, serialize, type TableFormat, table } from '../output.ts';
import { withConnection, withSuperCluster } from '../super-cluster.ts';
import {
  backgroundConnection,
  getVirtualCluster,
  type VirtualClusterRef,
  validRef,
} from '../virtual-clusters.ts';

interface Flags extends GlobalFlags {
  namespace: string;
  output: TableFormat;
}

const help = `
What Skerry has to say about a tenant: events on its VirtualCluster, and those that the syncer writes in the tenant (what is
refused, and why). The latest come last. Events are kept for about an hour.

Examples:
  vc-manager events team-blue
  vc-manager events team-blue -o json`;

export function configure(command: Command, cli: Cli): void {
  command
    .addArgument(tenantArgument('<name>'))
    .option('-n, --namespace <namespace>', 'namespace of the VirtualCluster', 'default')
    .addOption(outputOption())
    .addHelpText('after', help)
    .action(async (name: string, _, chosen: Command) => events(cli, name, chosen.optsWithGlobals<Flags>()));
}

export interface Event extends KubeObject {
  type?: string;
  reason?: string;
  message?: string;
  count?: number;
  firstTimestamp?: string | null;
  lastTimestamp?: string | null;
  eventTime?: string | null;
  source?: { component?: string };
  involvedObject?: { kind?: string; namespace?: string; name?: string; uid?: string };
}

/** One event as it is printed, in every format. */
export interface ShownEvent {
  at: string;
  type: string;
  reason: string;
  /** `VirtualCluster NAMESPACE/NAME`, or of the tenant `Pod NAMESPACE/NAME`. */
  object: string;
  count: number;
  message: string;
}

async function events(cli: Cli, name: string, flags: Flags): Promise<void> {
  const ref = validRef(name, flags.namespace);
  await withSuperCluster(cli, flags, async (client) => {
    const vc = await getVirtualCluster(client, ref, cli.signal);
    const own = await eventsOf(client, ref, vc, cli.signal);
    const all = [...own, ...(await fromTenant(cli, client, vc))].map(shownEvent);
    all.sort((a, b) => (a.at < b.at ? -1 : 1));
    if (flags.output !== 'table') {
      cli.stdout.write(serialize(flags.output, all));
      return;
    }
    if (all.length === 0) {
      cli.stderr.write(`There are no events of ${name}.\n`);
      return;
    }
    const nowMs = cli.clock.now();
    cli.stdout.write(
      table(
        ['LAST SEEN', 'TYPE', 'REASON', 'OBJECT', 'COUNT', 'MESSAGE'],
        all.map(({ at, type, reason, object, count, message }) => [
          ...[ageSince(at, nowMs), type, reason, object, String(count), message],
        ]),
      ),
    );
  });
}

/** Events on this VirtualCluster, without those of an earlier one of the same name. */
export async function eventsOf(
  client: KubeClient,
  { namespace, name }: VirtualClusterRef,
  { metadata }: VirtualCluster,
  signal: AbortSignal,
): Promise<Event[]> {
  const fieldSelector = `involvedObject.kind=VirtualCluster,involvedObject.name=${name}`;
  const { items } = await client.list<Event>(resources.events, { namespace, fieldSelector, signal });
  return items.filter(({ involvedObject }) => (involvedObject?.uid ?? metadata.uid) === metadata.uid);
}

const maxEvents = 1_000;
const eventsPerPage = 500;
/** A tenant may have any number of them. */
const maxPages = 20;
const tenantTimeoutMs = 15_000;

/** A tenant that does not answer, or is asleep and not to be woken, has none to show. */
async function fromTenant(cli: Cli, client: KubeClient, vc: VirtualCluster): Promise<Event[]> {
  if (vc.status?.phase === 'Asleep') return [];
  try {
    const connection = await backgroundConnection(client, vc, cli.signal);
    return await withConnection({ requestTimeoutMs: tenantTimeoutMs, ...connection }, async (tenant) => {
      const { events: latest, isCut } = await latestTenantEvents(tenant, maxEvents, cli.signal);
      if (isCut) cli.stderr.write(`note: the tenant has more events than the latest ${maxEvents} shown\n`);
      return latest;
    });
  } catch (error) {
    cli.signal.throwIfAborted();
    cli.stderr.write(`note: the events in the tenant cannot be read: ${messageOf(error)}\n`);
    return [];
  }
}

/**
 * What the syncer has written in a tenant, the latest of it first. API servers list by name, so that all pages are read,
 * up to a bound, and of each no more is kept than can be among the latest. `isCut`: there are others.
 */
export async function latestTenantEvents(
  tenant: Pick<KubeClient, 'list'>,
  most: number,
  signal: AbortSignal,
): Promise<{ events: Event[]; isCut: boolean }> {
  let latest: { event: Event; at: number }[] = [];
  let isCut = false;
  let next: string | undefined;
  for (let page = 0; page < maxPages; page++) {
    const { items, metadata } = await tenant.list<Event>(resources.events, {
      fieldSelector: 'source=skerry-syncer',
      limit: eventsPerPage,
      signal,
      continue: next,
    });
    latest.push(...items.map((event) => ({ event, at: lastSeenMs(event) })));
    latest.sort((a, b) => b.at - a.at);
    isCut ||= latest.length > most;
    latest = latest.slice(0, most);
    next = metadata.continue;
    if (next === undefined || next === '') return { events: latest.map(({ event }) => event), isCut };
  }
  return { events: latest.map(({ event }) => event), isCut: true };
}

function lastSeenMs(event: Event): number {
  return Date.parse(shownEvent(event).at) || 0;
}

export function shownEvent({ type, reason, message, count, metadata, ...event }: Event): ShownEvent {
  const { kind = '', namespace, name = '' } = event.involvedObject ?? {};
  const at =
    event.lastTimestamp ?? event.eventTime ?? event.firstTimestamp ?? metadata.creationTimestamp ?? '';
  const text = (each: unknown, length: number): string => printable(String(each ?? ''), length);
  return {
    at: text(at, 64),
    type: text(type, 32),
    reason: text(reason, 128),
    object: text(`${kind} ${namespace === undefined ? '' : `${namespace}/`}${name}`, 600),
    count: typeof count === 'number' ? count : 1,
    message: text(message, 1_024),
  };
}
