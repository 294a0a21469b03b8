import { backgroundPrefix } from '../../../api/names.ts';
import { reservedOffsets } from '../../../api/tenant-state.ts';
import type { DnsChoice, VirtualCluster } from '../../../api/virtual-cluster.ts';
import { findCondition, type KubeObject, printable, resources } from '../../../kube/index.ts';
import { addressAt } from '../../os/network.ts';
import { type AddonObject, installAddon, removeAddon, renderAddon } from '../addons.ts';
import { explain, noAddon } from '../errors.ts';
import type { Services } from '../services.ts';
import type { Step } from '../step-runner.ts';
import type { Tenant } from '../tenant.ts';

const condition = 'DNSReady';
const addon = 'coredns';
const soonestLookMs = 2_000;

interface Deployment extends KubeObject {
  spec?: { selector?: { matchLabels?: Record<string, string> } };
  status?: { availableReplicas?: number };
}

interface Pod extends KubeObject {
  status?: {
    conditions?: { type: string; status: string; message?: string }[];
    containerStatuses?: { state?: { waiting?: { reason?: string; message?: string } } }[];
  };
}

/**
 * DNS inside the tenant. It comes before credentials are written: a pod that is made before there is
 * a DNS server never learns of it. Afterwards it belongs to the tenant, who may break it: DNSReady reports that, and the
 * control plane stays Ready.
 */
export const dns: Step = {
  name: 'dns',
  doing: 'Installing DNS',
  async run(tenant, services) {
    const choice = wanted(tenant, services);
    const isInstalled = findCondition(tenant.vc.status?.conditions, condition) !== undefined;
    if (choice === 'none' && !isInstalled) return;
    try {
      const objects = objectsOf(tenant);
      await tenant.answerTime.within(tenant.signal, async (signal) => {
        if (choice === 'none') {
          await removeAddon(tenant.client, addon, objects, signal);
          tenant.status.dropCondition(condition);
        } else {
          const installed = await installAddon(tenant.client, addon, objects, signal);
          const isDeployment = (index: number): boolean => objects[index]?.resource === resources.deployments;
          const deployments = installed.filter((_object, index) => isDeployment(index)) as Deployment[];
          await reportDns(tenant, deployments, signal);
        }
      });
    } catch (error) {
      if (tenant.signal.aborted) throw error;
      const { reason, message, retryable } = explain(error, tenant);
      if (retryable && isNew(tenant)) throw error;
      // That it is slow says nothing of its DNS.
      if (reason === 'TenantTooSlow' && isAvailable(tenant)) {
        tenant.notes.push('Its API server is too slow for a look at its DNS.');
        return;
      }
      tenant.status.condition(condition, 'False', reason, message);
    }
  },
};

/** The manager's default counts only for a new control plane. */
function wanted(tenant: Tenant, { settings }: Services): DnsChoice {
  const { spec, status } = tenant.vc;
  if (spec?.dns !== undefined) return spec.dns;
  if (isNew(tenant)) return settings.dns;
  return findCondition(status?.conditions, condition) === undefined ? 'none' : 'coredns';
}

function isAvailable({ vc }: Tenant): boolean {
  return findCondition(vc.status?.conditions, condition)?.status === 'True';
}

/** No credentials were written, so no one has used it. */
function isNew(tenant: Tenant): boolean {
  return tenant.vc.status?.kubeconfigSecret === undefined;
}

function objectsOf(tenant: Tenant): AddonObject[] {
  const { template } = tenant.required(tenant.choice, 'template');
  const text = template.spec.addons?.[addon];
  if (text === undefined) throw noAddon(addon, template.metadata.name);
  return renderAddon(addon, text, {
    clusterDomain: tenant.vc.spec?.clusterDomain ?? 'cluster.local',
    dnsAddress: addressAt(
      tenant.required(tenant.vc.status?.serviceCIDR, 'service slice'),
      reservedOffsets.dns,
    ),
    ...background(tenant.vc),
  });
}

/** Where pods go through the gateway: it knows by the name of the server whose requests are no use of the tenant. */
function background({ status }: VirtualCluster): { backgroundEnv: string; backgroundAliases: string } {
  const { podAddress, port, serverName } = status?.gateway ?? {};
  if (podAddress === undefined || port === undefined) return { backgroundEnv: '[]', backgroundAliases: '[]' };
  const host = `${backgroundPrefix}${serverName}`;
  return {
    backgroundEnv: JSON.stringify([
      { name: 'KUBERNETES_SERVICE_HOST', value: host },
      { name: 'KUBERNETES_SERVICE_PORT', value: String(port) },
    ]),
    backgroundAliases: JSON.stringify([{ ip: podAddress, hostnames: [host] }]),
  };
}

async function reportDns(
  tenant: Tenant,
  deployments: readonly Deployment[],
  signal: AbortSignal,
): Promise<void> {
  const late = deployments.find(({ status }) => (status?.availableReplicas ?? 0) === 0);
  if (late === undefined) {
    tenant.status.condition(condition, 'True', 'Available', 'Names are resolved by CoreDNS in kube-system.');
    return;
  }
  const why = await whyNotAvailable(tenant, late, signal);
  const message = `No pod of Deployment kube-system/${late.metadata.name} is available yet${why}`;
  tenant.status.condition(condition, 'False', 'Starting', message);
  tenant.lookAgainMs = Math.min(tenant.lookAgainMs, nextLookMs(tenant));
}

/** The manager has no watch on tenants, so it polls: the longer DNS is not available, the less often. */
function nextLookMs({ vc, clock }: Tenant): number {
  const known = findCondition(vc.status?.conditions, condition);
  const since = known?.status === 'False' ? Date.parse(known.lastTransitionTime ?? '') : Number.NaN;
  return Math.max(soonestLookMs, clock.now() - (Number.isNaN(since) ? clock.now() : since));
}

/** Limits on pods that are read, and on characters of their messages: the tenant may write any of it. */
const maxPods = 10;
const longestSaying = 512;

/** The reason that the Deployment's pods give, as the end of a sentence. */
async function whyNotAvailable(
  { client }: Tenant,
  deployment: Deployment,
  signal: AbortSignal,
): Promise<string> {
  const labels = Object.entries(deployment.spec?.selector?.matchLabels ?? {});
  const labelSelector = labels.map(([key, value]) => `${key}=${value}`).join(',');
  const { namespace = '' } = deployment.metadata;
  const { items } = await client.list<Pod>(resources.pods, {
    namespace,
    labelSelector,
    limit: maxPods,
    signal,
  });
  for (const { status } of items) {
    const waiting = status?.containerStatuses?.find(({ state }) => state?.waiting?.message !== undefined);
    const { reason, message } = waiting?.state?.waiting ?? {};
    if (message !== undefined) return printable(`: ${reason}: ${message}`, longestSaying);
    const unscheduled = status?.conditions?.find(
      (each) => each.type === 'PodScheduled' && each.status === 'False' && each.message !== undefined,
    );
    if (unscheduled !== undefined) return printable(`: ${unscheduled.message}`, longestSaying);
  }
  return '.';
}
