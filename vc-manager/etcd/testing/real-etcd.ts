import { type ChildProcess, spawn } from 'node:child_process';
import { access, constants, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from '../../../kube/testing/free-port.ts';
import { defaultCacheDirectory, defaultVersions, hostPlatform } from '../../binaries/index.ts';
import { ensureManagerPki, etcdServerName, type ManagerPki } from '../../pki/index.ts';
import { EtcdAdmin } from '../admin.ts';
import { etcdServerArguments } from '../server-arguments.ts';

/** A real etcd on loopback with data of its own, started as the local stack starts it but without fsync. */
export class RealEtcd {
  readonly endpoint: string;
  readonly peerPort: number;
  readonly metricsEndpoint: string;
  readonly pki: ManagerPki;
  readonly #directory: string;
  readonly #binary: string;
  readonly #args: string[];
  #process: ChildProcess | undefined;
  #log = '';

  constructor(options: {
    directory: string;
    binary: string;
    pki: ManagerPki;
    ports: [client: number, peer: number, metrics: number];
  }) {
    const [clientPort, peerPort, metricsPort] = options.ports;
    this.#directory = options.directory;
    this.#binary = options.binary;
    this.pki = options.pki;
    this.endpoint = `https://127.0.0.1:${clientPort}`;
    this.peerPort = peerPort;
    this.metricsEndpoint = `http://127.0.0.1:${metricsPort}`;
    this.#args = etcdServerArguments({
      name: 'test',
      dataDir: join(options.directory, 'data'),
      clientPort,
      peerPort,
      metricsPort,
      tls: {
        caFile: join(options.directory, 'pki', 'etcd-ca.crt'),
        certFile: join(options.directory, 'pki', 'etcd-server.crt'),
        keyFile: join(options.directory, 'pki', 'etcd-server.key'),
        serverName: etcdServerName,
      },
      unsafeNoFsync: true,
    });
  }

  static async start(): Promise<RealEtcd> {
    const binary = await etcdBinary();
    const directory = await mkdtemp(join(tmpdir(), 'skerry-etcd-'));
    const pki = await ensureManagerPki(join(directory, 'pki'), { now: new Date() });
    const etcd = new RealEtcd({
      directory,
      binary,
      pki,
      ports: [await freePort(), await freePort(), await freePort()],
    });
    try {
      await etcd.launch();
    } catch (error) {
      await etcd.stop();
      throw error;
    }
    return etcd;
  }

  admin(options: { rootPassword?: string; timeoutMs?: number } = {}): EtcdAdmin {
    const { certPem: cert, keyPem: key } = this.pki.etcdManager;
    const ca = this.pki.etcdCa.certPem;
    return new EtcdAdmin({
      endpoint: this.endpoint,
      ca,
      cert,
      key,
      rootPassword: this.pki.etcdRootPassword,
      ...options,
    });
  }

  /** Starts the process and returns when it answers. */
  async launch(): Promise<void> {
    const child = spawn(this.#binary, this.#args, { stdio: ['ignore', 'ignore', 'pipe'] });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#log = (this.#log + text).slice(-4000);
    });
    this.#process = child;
    const admin = this.admin();
    try {
      while (!(await admin.health()).healthy) {
        if (child.exitCode !== null) throw new Error(`etcd ended with code ${child.exitCode}:\n${this.#log}`);
        await delay(50);
      }
    } finally {
      await admin.close();
    }
  }

  /** Ends the process, keeps the data. */
  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    const child = this.#process;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exited = new Promise((resolve) => child.once('exit', resolve));
    child.kill(signal);
    await exited;
  }

  async forgetData(): Promise<void> {
    await rm(join(this.#directory, 'data'), { recursive: true, force: true });
  }

  async stop(): Promise<void> {
    await this.kill();
    await rm(this.#directory, { recursive: true, force: true });
  }
}

/** Where the test command puts etcd, or where the user says it is. Throws rather than let a test be skipped. */
async function etcdBinary(): Promise<string> {
  const directory = process.env['SKERRY_BINARIES'];
  const { os, arch } = hostPlatform();
  const cache = defaultCacheDirectory(process.env);
  const candidates = [
    ...(directory ? [join(directory, 'etcd')] : []),
    join(cache, 'binaries', 'etcd', defaultVersions.etcd, `${os}-${arch}`, 'etcd'),
  ];
  for (const path of candidates) {
    try {
      await access(path, constants.X_OK);
      return path;
    } catch {}
  }
  throw new Error(
    `These tests need a real etcd and found none at ${candidates.join(' or ')}. Fetch it with "vc-manager binaries", run "npm test", or set SKERRY_BINARIES to the directory that has it.`,
  );
}
