import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { renderKubeconfig } from '../../../kube/index.ts';
import { type CertificateAuthority, issue, type KeyPair } from '../../../vc-manager/pki/index.ts';

/** Where everything of a node lies on the machine. */
export class NodeFiles {
  readonly directory: string;

  constructor(directory: string) {
    this.directory = directory;
  }

  /** Its own /var/lib/<name>. */
  state(name: 'kubelet' | 'containerd' | 'local-path-provisioner'): string {
    return join(this.directory, name);
  }

  file(name: string): string {
    return join(this.directory, name);
  }

  log(program: string): string {
    return join(this.directory, 'logs', `${program}.log`);
  }
}

/** Names of directories that a node has to itself. */
export const stateNames = ['kubelet', 'containerd', 'local-path-provisioner'] as const;

const sandboxImage = 'registry.k8s.io/pause:3.10.2';

export function containerdConfiguration(files: NodeFiles): string {
  return `version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
[plugins."io.containerd.cri.v1.runtime"]
  # Without it runc may not lower the score of a process, as nobody may on such a machine.
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = "${files.file('cni')}"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      SystemdCgroup = false
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "${sandboxImage}"
`;
}

/** Pods of a node hang on a bridge of its own; ways to other nodes' pods are routes of the node. */
export function cniConfiguration(podRange: string): string {
  return JSON.stringify({
    cniVersion: '1.0.0',
    name: 'pods',
    plugins: [
      {
        type: 'bridge',
        bridge: 'cni0',
        isGateway: true,
        isDefaultGateway: true,
        hairpinMode: true,
        ipMasq: false,
        mtu: 1500,
        ipam: { type: 'host-local', dataDir: '/run/cni-ipam', ranges: [[{ subnet: podRange }]] },
      },
      { type: 'portmap', capabilities: { portMappings: true } },
    ],
  });
}

interface KubeletFilesOptions {
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

/** The authorities of the local super cluster, which a node's programs are known and shown by. */
export class Credentials {
  readonly server: string;
  readonly clientCaFile: string;
  readonly #clientCa: CertificateAuthority;
  readonly #servingCa: CertificateAuthority;

  private constructor(
    server: string,
    clientCaFile: string,
    client: CertificateAuthority,
    serving: CertificateAuthority,
  ) {
    this.server = server;
    this.clientCaFile = clientCaFile;
    this.#clientCa = client;
    this.#servingCa = serving;
  }

  /** Of the stack in this state directory, which must have been started once. */
  static async read(stateDir: string, server: string): Promise<Credentials> {
    const pki = join(stateDir, 'super-cluster', 'pki');
    const authority = async (name: string): Promise<CertificateAuthority> => ({
      certPem: await readFile(join(pki, `${name}.crt`), 'utf8'),
      keyPem: await readFile(join(pki, `${name}.key`), 'utf8'),
    });
    return new Credentials(
      server,
      join(pki, 'client-ca.crt'),
      await authority('client-ca'),
      await authority('serving-ca'),
    );
  }

  async writeKubeconfig(path: string, commonName: string, organizations: readonly string[]): Promise<void> {
    const { certPem, keyPem } = await issue(this.#clientCa, { commonName, organizations, usage: ['client'] });
    const kubeconfig = renderKubeconfig({
      clusterName: 'super-cluster',
      server: this.server,
      ca: this.#servingCa.certPem,
      user: commonName,
      cert: certPem,
      key: keyPem,
    });
    await writeFile(path, kubeconfig, { mode: 0o600 });
  }

  /** What a kubelet shows to API servers. */
  serving(name: string, address: string): Promise<KeyPair> {
    return issue(this.#servingCa, {
      commonName: `system:node:${name}`,
      organizations: ['system:nodes'],
      dnsNames: [name],
      ipAddresses: [address],
      usage: ['server'],
    });
  }
}

interface InitOptions {
  name: string;
  files: NodeFiles;
  /** The program that stays as the node's first process. */
  pause: string;
}

/**
 * What runs first in a node's new namespaces. Default paths of the node's programs become its own: /run, and by
 * an overlay /var/lib and /var/log, so that nothing is written to the machine's. It prints `ready` in the end.
 *
 * Mounts become private before copies are unmounted, or the machine's would go with them; afterwards shared, as
 * kubelet hands mounts on to containers.
 */
export function initScript({ name, files, pause }: InitOptions): string {
  const { directory } = files;
  const cgroups = `${directory}/cgroups`;
  return `set -e
mount --make-rprivate /
mount --rbind /sys/fs/cgroup ${cgroups}
mount -t sysfs sysfs /sys
mount --rbind ${cgroups} /sys/fs/cgroup
umount -l ${cgroups}
mount -t tmpfs -o mode=755 tmpfs ${directory}/over
for part in var/lib var/log; do
  key=$(echo $part | tr / -)
  mkdir ${directory}/over/$key ${directory}/over/$key-work
  mount -t overlay -o lowerdir=/$part,upperdir=${directory}/over/$key,workdir=${directory}/over/$key-work overlay /$part
done
${[...stateNames].map((state) => `mkdir -p /var/lib/${state}; mount --bind ${files.state(state)} /var/lib/${state}`).join('\n')}
mkdir -p /var/log/pods; mount --bind ${directory}/pod-logs /var/log/pods
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/lock
mount --make-rshared /
hostname ${name}
ip link set lo up
sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0
sysctl -qw net.bridge.bridge-nf-call-iptables=1 2>/dev/null || true
echo ready
exec ${pause}
`;
}
