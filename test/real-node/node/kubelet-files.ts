import { stringify } from 'yaml';

export interface KubeletFilesOptions {
  /** Paths. */
  clientCa: string;
  cert: string;
  key: string;
  resolvConf: string;
  cgroup: string;
  /** Address of the super cluster's DNS; pods of tenants have their own. */
  dnsAddress: string;
}

export function kubeletConfiguration(options: KubeletFilesOptions): string {
  return stringify({
    apiVersion: 'kubelet.config.k8s.io/v1beta1',
    kind: 'KubeletConfiguration',
    authentication: {
      anonymous: { enabled: false },
      webhook: { enabled: true },
      x509: { clientCAFile: options.clientCa },
    },
    authorization: { mode: 'Webhook' },
    tlsCertFile: options.cert,
    tlsPrivateKeyFile: options.key,
    // Machines with version 1 still exist, and no test asks for more.
    failCgroupV1: false,
    cgroupDriver: 'cgroupfs',
    cgroupRoot: `/${options.cgroup}`,
    containerRuntimeEndpoint: 'unix:///run/containerd/containerd.sock',
    clusterDomain: 'cluster.local',
    clusterDNS: [options.dnsAddress],
    resolvConf: options.resolvConf,
    volumePluginDir: '/var/lib/kubelet/volume-plugins',
    failSwapOn: false,
    // The disk is the machine's, however full.
    evictionHard: { 'imagefs.available': '0%', 'nodefs.available': '0%', 'memory.available': '100Mi' },
    imageGCHighThresholdPercent: 100,
    serializeImagePulls: false,
    syncFrequency: '10s',
    nodeStatusUpdateFrequency: '5s',
  });
}

export function kubeProxyConfiguration(options: { kubeconfig: string; podRange: string }): string {
  return stringify({
    apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
    kind: 'KubeProxyConfiguration',
    mode: 'nftables',
    clientConnection: { kubeconfig: options.kubeconfig },
    clusterCIDR: options.podRange,
    detectLocalMode: 'ClusterCIDR',
    // Settings of the whole machine, which a network namespace may not change.
    conntrack: { maxPerCore: 0, min: 0, tcpEstablishedTimeout: '0s', tcpCloseWaitTimeout: '0s' },
  });
}
