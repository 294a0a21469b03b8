import { readFile } from 'node:fs/promises';
import { connect } from 'node:net';
import {
  type ConnectionOptions,
  type KubeClient,
  KubeconfigError,
  loadKubeconfig,
  parseKubeconfig,
  withClient,
} from '../../kube/index.ts';
import type { Cli, GlobalFlags } from './context.ts';
import { CliError } from './errors.ts';
import { localKubeconfigFile, readSettings, stateChoice } from './state-directory.ts';

const userAgent = 'vc-manager-cli';
const requestTimeoutMs = 15_000;

/** Runs `work` with a client of the super cluster: that of the flags, of the local stack, or of the user's kubeconfig. */
export async function withSuperCluster<T>(
  cli: Cli,
  flags: GlobalFlags,
  work: (client: KubeClient) => Promise<T>,
): Promise<T> {
  const options = await findSuperCluster(cli, flags);
  return withConnection({ requestTimeoutMs, ...options }, work);
}

export function withConnection<T>(
  options: ConnectionOptions,
  work: (client: KubeClient) => Promise<T>,
): Promise<T> {
  return withClient({ userAgent, ...options }, work);
}

export async function findSuperCluster(cli: Cli, flags: GlobalFlags): Promise<ConnectionOptions> {
  const load = (file?: string, context?: string) => loadKubeconfig(file, context, { ...cli.env });
  if (flags.kubeconfig !== undefined || flags.context !== undefined)
    return load(flags.kubeconfig, flags.context);
  const { directory, isExplicit } = stateChoice(cli.env, flags);
  const settings = await readSettings(directory);
  if (settings !== undefined && settings.superCluster !== 'local') {
    return load(settings.superCluster.kubeconfig, settings.superCluster.context);
  }
  const file = localKubeconfigFile(directory);
  if (await isListening(file)) return load(file);
  if (isExplicit) {
    throw new CliError(
      'NotRunning',
      settings === undefined
        ? `there is no local stack in ${directory}: "vc-manager up --state-dir ${directory}" starts one`
        : `the local stack in ${directory} does not run: "vc-manager up --state-dir ${directory}" starts it`,
    );
  }
  try {
    const options = await load();
    if (settings !== undefined) {
      cli.stderr.write(
        `note: the local stack does not run, so this is about ${options.server} of your kubeconfig\n`,
      );
    }
    return options;
  } catch (error) {
    if (!(error instanceof KubeconfigError)) throw error;
    const nothing =
      error.code === 'KubeconfigNotFound'
        ? 'there is no kubeconfig'
        : `your kubeconfig cannot be used (${error.message})`;
    throw new CliError(
      'NotRunning',
      `no local stack runs, and ${nothing}: start one with "vc-manager up", or name a cluster with --kubeconfig FILE`,
      { cause: error },
    );
  }
}

/** Whether the address in the kubeconfig of the local super cluster accepts connections. */
async function isListening(kubeconfigFile: string): Promise<boolean> {
  const text = await readFile(kubeconfigFile, 'utf8').catch(() => undefined);
  if (text === undefined) return false;
  const server = parseKubeconfig(text).clusters[0]?.cluster['server'];
  if (typeof server !== 'string' || !URL.canParse(server)) return false;
  const { hostname, port } = new URL(server);
  return new Promise((resolve) => {
    const socket = connect({ host: hostname, port: Number(port), timeout: 2_000 });
    const end = (answer: boolean) => () => {
      socket.destroy();
      resolve(answer);
    };
    socket.once('connect', end(true));
    socket.once('error', end(false));
    socket.once('timeout', end(false));
  });
}
