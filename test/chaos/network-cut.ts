import { existsSync, mkdirSync, mkdtempSync, rmdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';

/** Of the packets that are dropped; any number that nobody else uses. */
const classId = '0x00100001';

/** The hierarchy is the machine's, whoever mounts it: others may cut at the same time. */
const groupName = `skerry-cut-${process.pid}`;

/**
 * Loses every packet that a process sends, on connections that are open too, until it is healed: what a cable
 * pulled out looks like from both ends. Acts within the network namespace that this process is in, which has to
 * be one of our own: it adds a firewall rule. Linux with cgroup v1's net_cls and iptables, as root.
 */
export class NetworkCut {
  readonly #mount: string;

  private constructor(mount: string) {
    this.#mount = mount;
  }

  /** Undefined where it cannot be had, with the reason told. */
  static async prepare(report: (reason: string) => void): Promise<NetworkCut | undefined> {
    const mount = mkdtempSync(join(tmpdir(), 'skerry-cut-'));
    try {
      await execa('mount', ['-t', 'cgroup', '-o', 'net_cls', 'none', mount]);
      const group = join(mount, groupName);
      if (!existsSync(group)) mkdirSync(group);
      writeFileSync(join(group, 'net_cls.classid'), classId);
      await execa('iptables', ['-A', 'OUTPUT', '-m', 'cgroup', '--cgroup', classId, '-j', 'DROP']);
      return new NetworkCut(mount);
    } catch (error) {
      report(error instanceof Error ? error.message : String(error));
      return undefined;
    }
  }

  cut(pid: number): void {
    this.#move(pid, groupName);
  }

  heal(pid: number): void {
    this.#move(pid, '.');
  }

  async close(): Promise<void> {
    rmdirSync(join(this.#mount, groupName));
    await execa('umount', [this.#mount]);
    rmdirSync(this.#mount);
  }

  /** A process that has ended in the meantime is nobody's any more. */
  #move(pid: number, group: string): void {
    try {
      writeFileSync(join(this.#mount, group, 'cgroup.procs'), String(pid));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  }
}
