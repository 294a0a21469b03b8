import { appendFileSync, globSync, readFileSync } from 'node:fs';
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { poll } from '../../harness/poll.ts';
import type { Tell } from '../build/programs.ts';
import { makeCgroup } from '../machine/machine.ts';
import type { Network } from '../machine/network.ts';
import { copyImageStore } from './image-store.ts';
import {
  type Credentials,
  cniConfiguration,
  containerdConfiguration,
  initScript,
  kubeletConfiguration,
  kubeProxyConfiguration,
  NodeFiles,
  stateNames,
} from './node-files.ts';
import { acceptsConnections, NodeProcess } from './node-process.ts';

interface RealNodeOptions {
  /** From 1. */
  index: number;
  directory: string;
  network: Network;
  /** Without a leading slash; also the parent of the cgroups of other nodes. */
  cgroup: string;
  programs: Readonly<Record<'containerd' | 'kubelet' | 'kube-proxy' | 'pause', string>>;
  imageStore: string;
  dnsAddress: string;
  tell: Tell;
}

const restartPauseMs = 1_000;

/** Of all nodes whose directories lie in this one: which daemons ended by themselves, with their last words. */
export function endedDaemons(nodes: string): string[] {
  const logs = globSync(new NodeFiles('*').log('ended'), { cwd: nodes });
  return logs.map((log) => readFileSync(join(nodes, log), 'utf8'));
}

/** A machine in the machine: namespaces of its own, and in them containerd, kubelet and kube-proxy. */
export class RealNode {
  readonly name: string;
  readonly index: number;
  readonly #o: RealNodeOptions;
  readonly #files: NodeFiles;
  readonly #daemons = new Map<string, NodeProcess>();
  #namespaces: NodeProcess | undefined;
  /** Of its first process, as the machine counts. */
  #pid = 0;
  #isStopping = false;

  constructor(options: RealNodeOptions) {
    this.#o = options;
    this.index = options.index;
    this.name = `node-${options.index}`;
    this.#files = new NodeFiles(options.directory);
  }

  /** Of its first process; to look into the node from the machine. */
  get pid(): number {
    return this.#pid;
  }

  /** Namespaces, links and containerd: all that does not need an API server. */
  async boot(others: readonly number[]): Promise<void> {
    const { network, index, imageStore, programs, directory } = this.#o;
    const files = this.#files;
    for (const name of ['logs', 'cni', 'cgroups', 'over', 'pod-logs']) {
      await mkdir(files.file(name), { recursive: true });
    }
    for (const name of stateNames)
      if (name !== 'containerd') await mkdir(files.state(name), { recursive: true });
    await chmod(files.state('local-path-provisioner'), 0o777);
    await copyImageStore(imageStore, files.state('containerd'));
    await makeCgroup(this.#cgroup);
    await writeFile(files.file('cni/10-pods.conflist'), cniConfiguration(network.nodeRange(index)));
    await writeFile(files.file('resolv.conf'), `nameserver ${network.address}\n`);
    await writeFile(files.file('containerd.toml'), containerdConfiguration(files));
    await writeFile(files.file('init.sh'), initScript({ name: this.name, files, pause: programs.pause }));

    const unshare = ['unshare', '--mount', '--net', '--pid', '--uts', '--ipc', '--fork', '--kill-child'];
    this.#namespaces = new NodeProcess({
      name: `${this.name} init`,
      command: [...unshare, '--mount-proc', 'sh', files.file('init.sh')],
      logFile: files.log('init'),
      mark: directory,
      announces: 'ready',
    });
    await this.#namespaces.announced;
    const children = await readFile(
      `/proc/${this.#namespaces.pid}/task/${this.#namespaces.pid}/children`,
      'utf8',
    );
    this.#pid = Number(children.trim());
    await network.connect(index, this.#pid, others);
    this.#run('containerd', [programs.containerd, '-c', files.file('containerd.toml')], {
      PATH: `${dirname(programs.containerd)}:${process.env['PATH'] ?? ''}`,
    });
    await this.#listens('containerd', `/proc/${this.#pid}/root/run/containerd/containerd.sock`);
  }

  /** Kubelet and kube-proxy. Resolves when they are started; the API server shows when the node is ready. */
  async join(credentials: Credentials): Promise<void> {
    const { network, index, programs, dnsAddress } = this.#o;
    const files = this.#files;
    const address = network.nodeAddress(index);
    const { certPem, keyPem } = await credentials.serving(this.name, address);
    await writeFile(files.file('kubelet.crt'), certPem);
    await writeFile(files.file('kubelet.key'), keyPem, { mode: 0o600 });
    await credentials.writeKubeconfig(files.file('kubelet.kubeconfig'), `system:node:${this.name}`, [
      'system:nodes',
    ]);
    await credentials.writeKubeconfig(files.file('kube-proxy.kubeconfig'), 'system:kube-proxy', []);
    await writeFile(
      files.file('kubelet.yaml'),
      kubeletConfiguration({
        clientCa: credentials.clientCaFile,
        cert: files.file('kubelet.crt'),
        key: files.file('kubelet.key'),
        resolvConf: files.file('resolv.conf'),
        cgroup: this.#cgroup,
        dnsAddress,
      }),
    );
    await writeFile(
      files.file('kube-proxy.yaml'),
      kubeProxyConfiguration({ kubeconfig: files.file('kube-proxy.kubeconfig'), podRange: network.podRange }),
    );
    const labels = {
      'topology.kubernetes.io/region': 'here',
      'topology.kubernetes.io/zone': `zone-${index}`,
    };
    this.#run('kubelet', [
      programs.kubelet,
      `--config=${files.file('kubelet.yaml')}`,
      `--kubeconfig=${files.file('kubelet.kubeconfig')}`,
      `--node-ip=${address}`,
      `--hostname-override=${this.name}`,
      `--node-labels=${Object.entries(labels)
        .map((pair) => pair.join('='))
        .join(',')}`,
      '--v=2',
    ]);
    this.#run('kube-proxy', [
      programs['kube-proxy'],
      `--config=${files.file('kube-proxy.yaml')}`,
      `--hostname-override=${this.name}`,
      '--v=2',
    ]);
  }

  /** Kills its first process, and so, by the kernel, every other. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#namespaces?.kill();
    await Promise.all([...this.#daemons.values()].map((daemon) => daemon.kill()));
  }

  get #cgroup(): string {
    return `${this.#o.cgroup}/${this.name}`;
  }

  /** Starts a program inside; when it ends by itself it is started again, as an init system would, and recorded. */
  #run(name: string, command: readonly string[], env: Readonly<Record<string, string>> = {}): void {
    const daemon = new NodeProcess({
      name: `${name} of ${this.name}`,
      command: ['nsenter', '-t', String(this.#pid), '-m', '-n', '-p', '-u', '-i', ...command],
      logFile: this.#files.log(name),
      mark: this.#o.directory,
      env,
    });
    this.#daemons.set(name, daemon);
    void daemon.ended.then((how) => {
      if (this.#isStopping) return;
      const line = `${name} of ${this.name} ended (${how}): ${daemon.lastWords(3)}`;
      this.#o.tell(line);
      appendFileSync(this.#files.log('ended'), `${line}\n`);
      setTimeout(() => {
        if (!this.#isStopping) this.#run(name, command, env);
      }, restartPauseMs);
    });
  }

  async #listens(name: string, socket: string): Promise<void> {
    await poll(`${name} of ${this.name} to listen`, () => {
      const daemon = this.#daemons.get(name);
      if (daemon?.hasEnded) throw new Error(`${daemon.name} has ended: ${daemon.lastWords()}`);
      return acceptsConnections(socket);
    });
  }
}
