import { run } from './machine.ts';

/** Every address and name of a cluster, from the number of its claim. */
export class Network {
  readonly bridge: string;
  /** Of the machine on the bridge: here API servers listen. */
  readonly address: string;
  readonly #number: number;

  constructor(number: number) {
    this.#number = number;
    this.bridge = `skerry${number}`;
    this.address = `172.31.${number}.1`;
  }

  /** Of all pods. */
  get podRange(): string {
    return `10.${128 + (this.#number >> 1)}.${(this.#number & 1) * 128}.0/17`;
  }

  /** Nodes are counted from 1. */
  nodeAddress(index: number): string {
    return `172.31.${this.#number}.${10 + index}`;
  }

  /** Of the pods of one node. */
  nodeRange(index: number): string {
    return `10.${128 + (this.#number >> 1)}.${(this.#number & 1) * 128 + index}.0/24`;
  }

  async up(): Promise<void> {
    await run('ip', ['link', 'add', this.bridge, 'type', 'bridge']);
    await run('ip', ['address', 'add', `${this.address}/24`, 'dev', this.bridge]);
    await run('ip', ['link', 'set', this.bridge, 'up']);
  }

  /** Connects a node's network namespace with the bridge, in both directions and with the other nodes' pods. */
  async connect(index: number, pid: number, others: readonly number[]): Promise<void> {
    const link = `${this.bridge}-${index}`;
    const address = this.nodeAddress(index);
    await run('ip', ['link', 'add', link, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', String(pid)]);
    await run('ip', ['link', 'set', link, 'master', this.bridge, 'up']);
    const within = (...args: string[]): Promise<string> =>
      run('nsenter', ['-t', String(pid), '-n', 'ip', ...args]);
    await within('address', 'add', `${address}/24`, 'dev', 'eth0');
    await within('link', 'set', 'eth0', 'up');
    await within('route', 'add', 'default', 'via', this.address);
    for (const other of others) {
      await within('route', 'add', this.nodeRange(other), 'via', this.nodeAddress(other));
    }
    await run('ip', ['route', 'replace', this.nodeRange(index), 'via', address, 'dev', this.bridge]);
  }

  /** Routes go with their links. */
  async down(): Promise<void> {
    const links = JSON.parse(await run('ip', ['-json', 'link', 'show'])) as { ifname: string }[];
    const ours = links
      .map(({ ifname }) => ifname)
      .filter((name) => name === this.bridge || name.startsWith(`${this.bridge}-`));
    for (const link of ours) await run('ip', ['link', 'delete', link]).catch(ignoreGone);
  }
}

/** The kernel removes a dead namespace's links itself, in its own time. */
function ignoreGone(error: Error): void {
  if (!/Cannot find device/.test(error.message)) throw error;
}
