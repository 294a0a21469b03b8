import type { NodeFiles } from './node-files.ts';

export const sandboxImage = 'registry.k8s.io/pause:3.10.2';

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
