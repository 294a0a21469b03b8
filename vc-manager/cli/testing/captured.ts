import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { stringify } from 'yaml';
import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import { resources } from '../../../kube/index.ts';
import { FakeApiServer } from '../../../kube/testing/index.ts';
import { runCli } from '../program.ts';

/** A stream that keeps what was written to it. */
export class Captured extends Writable {
  readonly isTTY: boolean;
  readonly columns: number;
  text = '';

  constructor(options: { isTTY?: boolean; columns?: number } = {}) {
    super();
    this.isTTY = options.isTTY ?? false;
    this.columns = options.columns ?? 80;
  }

  override _write(chunk: Buffer, _: BufferEncoding, done: () => void): void {
    this.text += chunk.toString();
    done();
  }
}

/** A stream whose reader has gone. */
export class ClosedPipe extends Captured {
  override _write(_: Buffer, __: BufferEncoding, done: (error: Error) => void): void {
    done(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }));
  }
}

/** Runs a command line as the shell would, in an environment with nothing in it but what is given. */
export async function runCaptured(
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<{ exitCode: number; stdout: string; stderr: string }> {
  const stdout = new Captured();
  const stderr = new Captured();
  const exitCode = await runCli(args, { env, stdout, stderr });
  return { exitCode, stdout: stdout.text, stderr: stderr.text };
}

/** A super cluster, and command lines that are run against it. */
export class CommandWorld implements AsyncDisposable {
  readonly server: FakeApiServer;
  /** Of its own; removed in the end. */
  readonly home: string;

  private constructor(server: FakeApiServer, home: string) {
    this.server = server;
    this.home = home;
  }

  static async start(): Promise<CommandWorld> {
    const [server, home] = [await FakeApiServer.start(), await mkdtemp(join(tmpdir(), 'skerry-command-'))];
    const kubeconfig = {
      'current-context': 'c',
      clusters: [{ name: 'c', cluster: { server: server.url } }],
      users: [{ name: 'u', user: {} }],
      contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
    };
    await writeFile(join(home, 'super.kubeconfig'), stringify(kubeconfig));
    return new CommandWorld(server, home);
  }

  run(...args: string[]): ReturnType<typeof runCaptured> {
    const env = { HOME: this.home, KUBECONFIG: join(this.home, 'mine') };
    return runCaptured([...args, '--kubeconfig', join(this.home, 'super.kubeconfig')], env);
  }

  /** What the manager has made of a VirtualCluster; annotations stay. */
  put(name: string, status: VirtualCluster['status'] = {}): void {
    const { metadata } = this.get(name) ?? { metadata: { name, namespace: 'default', uid: name } };
    this.server.put(resources.virtualClusters, { metadata, spec: {}, status });
  }

  get(name: string): VirtualCluster | undefined {
    return this.server.get(resources.virtualClusters, { namespace: 'default', name }) as
      | VirtualCluster
      | undefined;
  }

  remove(name: string): void {
    this.server.remove(resources.virtualClusters, { namespace: 'default', name });
  }

  /** Resolves to what a command asks for by this annotation, when it waits for the answer: it sees every `put` from then on. */
  async asked(name: string, annotation: string): Promise<string> {
    const value = () => this.get(name)?.metadata.annotations?.[annotation];
    const isWatched = () => this.server.watches(resources.virtualClusters.plural).length > 0;
    await this.server.until(() => value() !== undefined && isWatched());
    return value() ?? '';
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.server.stop();
    await rm(this.home, { recursive: true, force: true });
  }
}
