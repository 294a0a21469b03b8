import { stringify } from 'yaml';
import { renderKubeconfig } from '../../kube/index.ts';
import { hostInUrl } from '../../program/addresses.ts';
import type { ComponentPlan, PlanFile } from '../control-plane/plan.ts';
import { localAddress } from '../control-plane/render-plan.ts';
import { etcdServerName, type KeyPair, type SuperClusterPki } from '../pki/index.ts';
import { etcdComponent } from './datastore-plan.ts';
import { kwokConfiguration } from './kwok-configuration.ts';
import { kwokNodeAnnotation } from './simulated-nodes.ts';
import type { StackPorts } from './stack-ports.ts';

export interface SuperClusterPlanOptions {
  versions: { kubernetes: string; etcd: string; kwok: string };
  pki: SuperClusterPki;
  ports: StackPorts;
  serviceCIDR: string;
  clusterDomain: string;
  /** An address of this machine that is not loopback. */
  advertiseAddress: string;
  /** Where its API server listens. */
  bindAddress: string;
  /** Whether kwok plays the nodes. */
  isSimulated: boolean;
  /** Whose every request is recorded, in `audit.log` in the API server's data. */
  audited?: Audited | undefined;
  /** The Pod Security level of namespaces that name none, as in hardened clusters; absent: they enforce nothing. */
  podSecurity?: 'baseline' | 'restricted' | undefined;
  /** For tests: faster, and loses data when the machine crashes. */
  unsafeNoFsync?: boolean | undefined;
}

/** Users by name, and all users of groups. Neither may be empty: an API server takes that for all users. */
export interface Audited {
  users: readonly string[];
  groups: readonly string[];
}

const superClusterName = 'skerry-super-cluster';

/** The local super cluster: a whole control plane, and kwok in place of machines unless there are real ones. */
export function superClusterPlan(options: SuperClusterPlanOptions): ComponentPlan[] {
  const { pki, ports } = options;
  const etcd = etcdComponent({
    name: 'etcd',
    version: options.versions.etcd,
    ports: {
      client: ports['super-etcd-client'],
      http: ports['super-etcd-http'],
      peer: ports['super-etcd-peer'],
      metrics: ports['super-etcd-metrics'],
    },
    caPem: pki.etcdCa.certPem,
    server: pki.etcdServer,
    serverName: etcdServerName,
    unsafeNoFsync: options.unsafeNoFsync,
  });
  const components = [etcd, apiServer(options), controllerManager(options), scheduler(options)];
  return options.isSimulated ? [...components, kwok(options)] : components;
}

/** Where the API server is reached from this machine. */
export function superClusterServer({
  bindAddress,
  ports,
}: Pick<SuperClusterPlanOptions, 'bindAddress' | 'ports'>): string {
  return `https://${hostInUrl(localAddress(bindAddress))}:${ports['super-cluster']}`;
}

/** A kubeconfig for the local super cluster, for the user that the certificate names. */
export function superClusterKubeconfig(
  options: Pick<SuperClusterPlanOptions, 'pki' | 'ports' | 'bindAddress'>,
  user: string,
  { certPem, keyPem }: KeyPair,
): string {
  return renderKubeconfig({
    clusterName: superClusterName,
    server: superClusterServer(options),
    ca: options.pki.servingCa.certPem,
    user,
    cert: certPem,
    key: keyPem,
  });
}

function apiServer(options: SuperClusterPlanOptions): ComponentPlan {
  const { pki, ports } = options;
  const { bindAddress } = options;
  const port = ports['super-cluster'];
  // Pods of simulated nodes dial nothing, and without a network the address leads nowhere.
  const audit = auditing(options.audited);
  const admission = podSecurityDefaults(options.podSecurity);
  const isPublished = !(bindAddress.startsWith('127.') || bindAddress === '::1');
  return component('kube-apiserver', options.versions.kubernetes, {
    args: [
      `--advertise-address=${options.advertiseAddress}`,
      ...audit.args,
      ...admission.args,
      '--allow-privileged=true',
      '--authentication-config=${files}/authentication.yaml',
      '--authorization-mode=Node,RBAC',
      `--bind-address=${bindAddress}`,
      '--client-ca-file=${files}/client-ca.crt',
      '--enable-admission-plugins=NodeRestriction',
      // Webhooks and aggregated APIs run in pods; this process has no way to cluster addresses.
      '--enable-aggregator-routing=true',
      `--endpoint-reconciler-type=${isPublished ? 'lease' : 'none'}`,
      '--etcd-cafile=${files}/etcd-ca.crt',
      '--etcd-certfile=${files}/etcd-client.crt',
      // etcd compacts by itself.
      '--etcd-compaction-interval=0',
      '--etcd-keyfile=${files}/etcd-client.key',
      `--etcd-servers=https://127.0.0.1:${ports['super-etcd-client']}`,
      '--kubelet-certificate-authority=${files}/serving-ca.crt',
      '--kubelet-client-certificate=${files}/kubelet-client.crt',
      '--kubelet-client-key=${files}/kubelet-client.key',
      '--kubelet-preferred-address-types=InternalIP',
      '--profiling=false',
      '--proxy-client-cert-file=${files}/front-proxy-client.crt',
      '--proxy-client-key-file=${files}/front-proxy-client.key',
      '--requestheader-allowed-names=front-proxy-client',
      '--requestheader-client-ca-file=${files}/front-proxy-ca.crt',
      '--requestheader-extra-headers-prefix=X-Remote-Extra-',
      '--requestheader-group-headers=X-Remote-Group',
      '--requestheader-username-headers=X-Remote-User',
      `--secure-port=${port}`,
      `--service-account-issuer=https://kubernetes.default.svc.${options.clusterDomain}`,
      '--service-account-key-file=${files}/service-account.pub',
      '--service-account-signing-key-file=${files}/service-account.key',
      `--service-cluster-ip-range=${options.serviceCIDR}`,
      // Without it a server that is told to stop waits for its watches, and neither serves nor exits.
      '--shutdown-watch-termination-grace-period=2s',
      '--tls-cert-file=${files}/apiserver.crt',
      '--tls-private-key-file=${files}/apiserver.key',
    ],
    files: [
      file('authentication.yaml', authenticationConfiguration),
      file('client-ca.crt', pki.clientCa.certPem),
      file('serving-ca.crt', pki.servingCa.certPem),
      file('front-proxy-ca.crt', pki.frontProxyCa.certPem),
      file('etcd-ca.crt', pki.etcdCa.certPem),
      file('service-account.pub', options.pki.serviceAccountKey.publicPem),
      file('service-account.key', options.pki.serviceAccountKey.privatePem),
      ...pair('etcd-client', pki.etcdClient),
      ...pair('kubelet-client', pki.kubeletClient),
      ...pair('front-proxy-client', pki.frontProxyClient),
      ...pair('apiserver', pki.apiserver),
      ...audit.files,
      ...admission.files,
    ],
    ports: [{ name: 'https', port, host: bindAddress }],
    probe: {
      scheme: 'https',
      host: localAddress(bindAddress),
      port,
      path: '/readyz',
      caFile: 'serving-ca.crt',
      timeoutMs: 120_000,
    },
    dependsOn: ['etcd'],
    stopTimeoutMs: 30_000,
  });
}

/** Who asked for what, and whether it was allowed; no contents. */
function auditing(audited: Audited | undefined): Pick<ComponentPlan, 'args' | 'files'> {
  if (audited === undefined) return { args: [], files: [] };
  const policy = {
    apiVersion: 'audit.k8s.io/v1',
    kind: 'Policy',
    omitStages: ['RequestReceived'],
    omitManagedFields: true,
    rules: [
      { level: 'Metadata', users: audited.users },
      { level: 'Metadata', userGroups: audited.groups },
      { level: 'None' },
    ],
  };
  return {
    args: [
      '--audit-log-maxbackup=0',
      '--audit-log-maxsize=2048',
      '--audit-log-path=${data}/audit.log',
      '--audit-policy-file=${files}/audit-policy.yaml',
    ],
    files: [file('audit-policy.yaml', stringify(policy))],
  };
}

function podSecurityDefaults(
  level: SuperClusterPlanOptions['podSecurity'],
): Pick<ComponentPlan, 'args' | 'files'> {
  if (level === undefined) return { args: [], files: [] };
  const configuration = {
    apiVersion: 'apiserver.config.k8s.io/v1',
    kind: 'AdmissionConfiguration',
    plugins: [
      {
        name: 'PodSecurity',
        configuration: {
          apiVersion: 'pod-security.admission.config.k8s.io/v1',
          kind: 'PodSecurityConfiguration',
          defaults: { enforce: level, 'enforce-version': 'latest' },
          exemptions: { namespaces: ['kube-system'] },
        },
      },
    ],
  };
  return {
    args: ['--admission-control-config-file=${files}/admission.yaml'],
    files: [file('admission.yaml', stringify(configuration))],
  };
}

function controllerManager(options: SuperClusterPlanOptions): ComponentPlan {
  const { pki } = options;
  return component('kube-controller-manager', options.versions.kubernetes, {
    args: [
      // Simulated nodes bring their own pod ranges.
      '--allocate-node-cidrs=false',
      '--kube-api-burst=200',
      '--kube-api-qps=100',
      '--kubeconfig=${files}/kubeconfig',
      '--leader-elect=false',
      // Simulated nodes report every one to one and a half minutes.
      '--node-monitor-grace-period=5m',
      '--profiling=false',
      '--root-ca-file=${files}/serving-ca.crt',
      '--secure-port=0',
      '--service-account-private-key-file=${files}/service-account.key',
      '--use-service-account-credentials=true',
    ],
    files: [
      file(
        'kubeconfig',
        superClusterKubeconfig(options, 'system:kube-controller-manager', pki.controllerManager),
      ),
      file('serving-ca.crt', pki.servingCa.certPem),
      file('service-account.key', options.pki.serviceAccountKey.privatePem),
    ],
  });
}

function scheduler(options: SuperClusterPlanOptions): ComponentPlan {
  return component('kube-scheduler', options.versions.kubernetes, {
    args: ['--config=${files}/scheduler.yaml', '--secure-port=0'],
    files: [
      file('kubeconfig', superClusterKubeconfig(options, 'system:kube-scheduler', options.pki.scheduler)),
      file('scheduler.yaml', schedulerConfiguration),
    ],
  });
}

function kwok(options: SuperClusterPlanOptions): ComponentPlan {
  return component('kwok', options.versions.kwok, {
    args: [
      '--config=${files}/kwok.yaml',
      '--kubeconfig=${files}/kubeconfig',
      '--manage-all-nodes=false',
      `--manage-nodes-with-annotation-selector=${kwokNodeAnnotation}=fake`,
      '--node-lease-duration-seconds=0',
    ],
    // It would read settings of this user's own kwok from there.
    env: { HOME: '${data}' },
    files: [
      file('kubeconfig', superClusterKubeconfig(options, 'system:kwok', options.pki.kwok)),
      file('kwok.yaml', kwokConfiguration()),
    ],
  });
}

type Parts = Pick<ComponentPlan, 'args' | 'files'> & Partial<ComponentPlan>;

function component(
  name: 'kube-apiserver' | 'kube-controller-manager' | 'kube-scheduler' | 'kwok',
  version: string,
  parts: Parts,
): ComponentPlan {
  return {
    name,
    binary: { name, version },
    env: {},
    ports: [],
    dependsOn: ['kube-apiserver'],
    stopTimeoutMs: 15_000,
    ...parts,
  };
}

function file(path: string, content: string): PlanFile {
  return { path, content, mode: 0o600 };
}

function pair(name: string, { certPem, keyPem }: KeyPair): PlanFile[] {
  return [file(`${name}.crt`, certPem), file(`${name}.key`, keyPem)];
}

// Health without credentials for probes; nothing else.
const authenticationConfiguration = stringify({
  apiVersion: 'apiserver.config.k8s.io/v1',
  kind: 'AuthenticationConfiguration',
  anonymous: { enabled: true, conditions: [{ path: '/livez' }, { path: '/readyz' }, { path: '/healthz' }] },
});

const schedulerConfiguration = stringify({
  apiVersion: 'kubescheduler.config.k8s.io/v1',
  kind: 'KubeSchedulerConfiguration',
  clientConnection: { kubeconfig: '${files}/kubeconfig', qps: 200, burst: 400 },
  leaderElection: { leaderElect: false },
});
