import { spawn, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { isIP, isIPv6 } from 'node:net';

/** Servers by address and TCP port. */
export interface EgressTarget {
  /** An address or a range, as `10.0.0.0/8`; any address when absent. */
  to?: string;
  /** First and last; any port when absent. */
  ports?: readonly [first: number, last: number];
}

/** Groups that no system hands out: systemd and container engines leave them alone. */
const firstGroup = 0x7000_0000;

/**
 * The group that a process runs with for its connections to be told apart, alone on this machine: of a `space` (0 to
 * 4095) and a number in it (0 to 65535).
 */
export function groupOf(space: number, number: number): number {
  return firstGroup + space * 0x1_0000 + number;
}

/** What is not in the environment of every program. */
const environment = { PATH: `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin` };

/**
 * What the connections of some processes of this machine may lead to on the machine itself, by nftables: the processes
 * are known by their group. Where they lead elsewhere is nothing that it judges, but for link-local addresses, where
 * clouds keep credentials of machines. Rules outlive this process. They are judged when a connection is opened, so that a
 * change of them breaks none.
 */
export class EgressFilter {
  readonly #table: string;
  /** Group to the rules that were last set. */
  readonly #set = new Map<number, string>();
  readonly #now: () => number;
  #foundAt = -Infinity;
  #last: Promise<unknown> = Promise.resolve();

  /** `now`: milliseconds of a monotonic clock. */
  constructor(name: string, now: () => number = () => performance.now()) {
    if (!/^[a-z0-9-]{1,60}$/.test(name)) throw new TypeError(`${name} is no name of a table`);
    this.#table = `inet ${name}`;
    this.#now = now;
  }

  /** From now on processes of the group open connections on this machine to these servers and its resolvers only. */
  allow(group: number, targets: readonly EgressTarget[]): Promise<void> {
    return this.#inTurn(async () => {
      const rules = rulesOf(targets, resolvers());
      if (this.#set.get(group) === rules && (await this.#isInForce())) return;
      // Unknown until nft has taken them: what was refused once must not count as set when it is asked for again.
      this.#set.delete(group);
      await nft(script(this.#table, [[group, rules]]));
      this.#set.set(group, rules);
    });
  }

  /** When no process of the group runs any more. */
  forget(group: number): Promise<void> {
    return this.#inTurn(async () => {
      this.#set.delete(group);
      const t = this.#table;
      // What is not there cannot be deleted.
      await nft(
        `${script(t, [[group, '']])}delete element ${t} groups { ${group} }\ndelete chain ${t} g${group}\n`,
      );
      if (!(await nft(`list map ${t} groups\n`)).includes('elements')) await nft(`delete table ${t}\n`);
    });
  }

  /** Those with rules in force, also of other processes. */
  groups(): Promise<number[]> {
    return this.#inTurn(async () => {
      // There is no map before the first group.
      const map = await nft(`list map ${this.#table} groups\n`).catch(() => '');
      return [...map.matchAll(/\bgoto g(\d+)\b/g)].map(([, group]) => Number(group));
    });
  }

  /** All rules of the machine may have been flushed: then they are set anew. */
  async #isInForce(): Promise<boolean> {
    if (this.#now() - this.#foundAt < lookEveryMs) return true;
    const t = this.#table;
    const found = await nft(`list chain ${t} output\nlist map ${t} groups\n`).catch(() => '');
    const listed = new Set(found.match(/\bg\d+\b/g));
    // A table that is there may be one that was made for another group since, or have lost its rules.
    const isWhole =
      found.includes('@groups') && [...this.#set.keys()].every((group) => listed.has(`g${group}`));
    if (!isWhole) await nft(script(t, [...this.#set]));
    this.#foundAt = this.#now();
    return true;
  }

  #inTurn<T>(act: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(act, act);
    this.#last = turn.catch(() => undefined);
    return turn;
  }
}

const lookEveryMs = 15_000;

/** Why there can be no `EgressFilter` here; undefined when there can. */
export function egressFilterProblem(): string | undefined {
  if (process.platform !== 'linux') return 'only Linux has nftables';
  if (process.getuid?.() !== 0) return 'only root may set rules of nftables';
  // Whether a process may be given such a group, and whether the kernel takes such rules.
  const input = script('inet skerry-probe', [
    [firstGroup, rulesOf([{ to: '127.0.0.1', ports: [1, 2] }], [])],
  ]);
  const options = { input, env: environment, gid: firstGroup, encoding: 'utf8', timeout: 10_000 } as const;
  const { error, status, stderr } = spawnSync('nft', ['--check', '--file', '-'], options);
  if (error !== undefined)
    return 'code' in error && error.code === 'ENOENT' ? 'nft is not installed' : `nft: ${error.message}`;
  return status === 0 ? undefined : `nft refuses: ${stderr.trim().split('\n', 1)[0]}`;
}

/** All that has to be there, in one transaction. Only what opens a connection is looked at: nothing else costs time. */
function script(table: string, groups: readonly (readonly [group: number, rules: string])[]): string {
  const lines = [
    `add table ${table}`,
    `add map ${table} groups { type gid : verdict; }`,
    // Before addresses are translated: a port that a container engine publishes is one of the machine.
    `add chain ${table} output { type filter hook output priority raw; policy accept; }`,
    ...['output', 'machine', 'refuse'].flatMap((chain) => [
      `add chain ${table} ${chain}`,
      `flush chain ${table} ${chain}`,
    ]),
    `add rule ${table} output meta l4proto tcp tcp flags & (syn | ack) != syn accept`,
    `add rule ${table} output meta skgid vmap @groups`,
    `add rule ${table} machine fib daddr type local goto refuse`,
    // Link-local addresses, and those at which machines in a cloud get their credentials.
    `add rule ${table} machine ip daddr { 169.254.0.0/16, 100.100.100.200 } goto refuse`,
    `add rule ${table} machine ip6 daddr { fe80::/10, fd00:ec2::254, fd20:ce::254 } goto refuse`,
    // As a closed port: nothing is learnt from it.
    `add rule ${table} refuse meta l4proto tcp reject with tcp reset`,
    `add rule ${table} refuse drop`,
  ];
  for (const [group, rules] of groups) {
    const chain = `${table} g${group}`;
    lines.push(`add chain ${chain}`, `flush chain ${chain}`);
    for (const rule of rules.split('\n')) if (rule !== '') lines.push(`add rule ${chain} ${rule}`);
    lines.push(`add rule ${chain} goto machine`, `add element ${table} groups { ${group} : goto g${group} }`);
  }
  return `${lines.join('\n')}\n`;
}

/** A line for each; what is written here has been checked to be an address or a number. */
function rulesOf(targets: readonly EgressTarget[], ofNames: readonly string[]): string {
  const lines = targets.map(({ to, ports }) => {
    const [first, last] = ports ?? [1, 65_535];
    return `${to === undefined ? '' : `${destination(to)} `}tcp dport ${first}-${last} accept`;
  });
  for (const resolver of ofNames)
    lines.push(`${destination(resolver)} meta l4proto { tcp, udp } th dport 53 accept`);
  return lines.join('\n');
}

function destination(address: string): string {
  return isIPv6(address.split('/')[0] ?? '') ? `ip6 daddr ${address}` : `ip daddr ${address}`;
}

/** Addresses of the system's resolvers, whichever machine they are on. */
function resolvers(): string[] {
  try {
    const words = readFileSync('/etc/resolv.conf', 'utf8')
      .split('\n')
      .map((line) => line.trim().split(/\s+/));
    return words
      .filter(
        ([what, address = '']) => what === 'nameserver' && isIP(address) !== 0 && !address.includes('%'),
      )
      .map(([, address = '']) => address)
      .sort();
  } catch {
    return [];
  }
}

/** Rejects with what nft says. */
function nft(input: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn('nft', ['--file', '-'], { env: environment, timeout: 30_000 });
    let [out, said] = ['', ''];
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      out += text;
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      said += text;
    });
    child.on('error', reject);
    child.on('close', (code) =>
      code === 0
        ? resolve(out)
        : reject(new Error(said.trim().split('\n', 1)[0] || `nft ended with ${code}`)),
    );
    // It may end before it has read all.
    child.stdin.on('error', () => undefined);
    child.stdin.end(input);
  });
}
