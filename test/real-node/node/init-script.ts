import { type NodeFiles, stateNames } from './node-files.ts';

export interface InitOptions {
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
