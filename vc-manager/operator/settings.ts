import { isIP } from 'node:net';
import { type DriverName, defaultDriver } from '../../api/drivers.ts';
import { defaultSystemNamespace } from '../../api/names.ts';
import type { DnsChoice } from '../../api/virtual-cluster.ts';
import { isLoopback } from '../../program/addresses.ts';
import { invalidSettings } from './errors.ts';

export interface GatewaySettings {
  /** Tenants are told apart by the TLS server name `<id>.<domain>`. */
  domain: string;
  /** Absent: by the server name itself, which DNS then has to know. */
  host?: string;
  port: number;
  /** Each tenant gets a port of its own too, both ends included; kubeconfigs name that. */
  ports?: { first: number; last: number } | undefined;
  /** IP address at which pods reach it, each tenant's at the tenant's own port. Absent: they reach each API server by itself. */
  podAddress?: string | undefined;
  /** Kubeconfigs do not name the ports of tenants, which people do not reach, perhaps. */
  portsForPods?: boolean | undefined;
}

export interface OperatorSettings {
  /** Namespace of the super cluster for what belongs to Skerry itself. */
  namespace: string;
  /** Address that tenant API servers listen on. It has to cover `endpointHost` and `advertiseAddress`. */
  bindAddress: string;
  /** Address at which pods reach tenant API servers; an endpoint of a Service may not be loopback. */
  advertiseAddress: string;
  /** Host in the kubeconfigs that are handed out, and where the manager itself reaches tenants. */
  endpointHost: string;
  /** The gateway before all tenants, for kubeconfigs; absent: people reach each API server by itself. */
  gateway?: GatewaySettings | undefined;
  /** More names and addresses for every tenant's certificate. */
  extraHosts: readonly string[];
  /** Ports for tenant API servers, both ends included. */
  portRange: { first: number; last: number };
  /** Range of service addresses of all tenants. Only used until the super cluster has a pool of its own. */
  servicePool: string;
  /** Size of each tenant's part of the pool. */
  slicePrefixLength: number;
  /** Where tenant API servers reach the datastore. */
  etcdEndpoint: string;
  /** Kubernetes version of a VirtualCluster that asks for none. */
  defaultVersion: string;
  /** DNS of a VirtualCluster whose spec does not choose; decided once, when the control plane is made. */
  dns: DnsChoice;
  /** The driver that runs control planes; written into their status. */
  driver: DriverName;
  /** How many there are of each component whose template does not say, where the driver can run several. */
  replicas: number;
  /** How many control planes of the default template wait for an owner. */
  warm: number;
  /** What all that wait may take in memory, by what their templates ask for. Absent: a quarter of the machine, if there is one. */
  warmMemoryBytes?: number | undefined;
  /** How many VirtualClusters are reconciled at once. */
  parallel: number;
  /** How often each VirtualCluster is reconciled without an event. */
  recheckMs: number;
  /** How long a deleted tenant's syncer may take to leave. */
  leaveTimeoutMs: number;
  /** How long a tenant may take to make its first namespaces and ServiceAccount. */
  bootstrapTimeoutMs: number;
}

const defaults: Omit<OperatorSettings, 'advertiseAddress' | 'etcdEndpoint'> = {
  namespace: defaultSystemNamespace,
  bindAddress: '0.0.0.0',
  endpointHost: '127.0.0.1',
  extraHosts: [],
  portRange: { first: 21_000, last: 21_999 },
  servicePool: '10.112.0.0/12',
  slicePrefixLength: 22,
  defaultVersion: '1.36.3',
  dns: 'coredns',
  driver: defaultDriver,
  replicas: 1,
  warm: 0,
  parallel: 4,
  recheckMs: 60_000,
  leaveTimeoutMs: 15_000,
  bootstrapTimeoutMs: 60_000,
};

export type OperatorSettingsInput = Partial<OperatorSettings> &
  Pick<OperatorSettings, 'advertiseAddress' | 'etcdEndpoint'>;

/** Fills the defaults in and checks the whole. Throws `InvalidSettings`. */
export function operatorSettings(input: OperatorSettingsInput): OperatorSettings {
  const settings = { ...defaults, ...input };
  const { portRange, parallel, advertiseAddress, bindAddress, slicePrefixLength, recheckMs } = settings;
  if (isIP(bindAddress) === 0) throw invalidSettings('bindAddress', `"${bindAddress}" is not an IP address`);
  if (isIP(advertiseAddress) === 0) {
    throw invalidSettings('advertiseAddress', `"${advertiseAddress}" is not an IP address`);
  }
  if (isLoopback(advertiseAddress)) {
    throw invalidSettings(
      'advertiseAddress',
      'an endpoint may not be loopback; give another address of this machine',
    );
  }
  checkPodAddress(settings.gateway);
  const { first, last } = portRange;
  if (!(Number.isInteger(first) && Number.isInteger(last) && first >= 1 && last <= 65_535 && first <= last)) {
    throw invalidSettings('portRange', `${first}-${last} is not a range of ports`);
  }
  if (!Number.isInteger(parallel) || parallel < 1)
    throw invalidSettings('parallel', 'it has to be at least 1');
  if (!(recheckMs >= 1_000)) throw invalidSettings('recheckMs', 'it has to be at least one second');
  if (!Number.isInteger(slicePrefixLength) || slicePrefixLength < 1 || slicePrefixLength > 124) {
    throw invalidSettings('slicePrefixLength', `/${slicePrefixLength} is not a size of a range`);
  }
  return settings;
}

function checkPodAddress(gateway: GatewaySettings | undefined): void {
  const { podAddress, ports } = gateway ?? {};
  if (podAddress === undefined) return;
  const problem =
    isIP(podAddress) === 0
      ? `"${podAddress}" is not an IP address`
      : isLoopback(podAddress)
        ? 'pods do not reach a loopback address; give another one of the gateway'
        : ports === undefined
          ? 'pods name no server: give each tenant a port of its own with --gateway-ports'
          : undefined;
  if (problem !== undefined) throw invalidSettings('gateway.podAddress', problem);
}
