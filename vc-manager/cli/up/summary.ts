import { accessSync, constants } from 'node:fs';
import { basename, delimiter, join, relative } from 'node:path';
import { packageRoot } from '../../../program/package-root.ts';
import type { Cli } from '../context.ts';
import { indented, styler, table } from '../output.ts';
import { namespaceFlag } from '../virtual-clusters.ts';
import { sampleNamespace } from './samples.ts';

/** What runs where; plain data, because a detached `up` sends it to the process that started it. */
export interface UpSummary {
  superCluster: string;
  isLocal: boolean;
  tenants: {
    namespace: string;
    name: string;
    phase: string;
    version: string;
    endpoint: string;
    /** Whether the sample workloads have been put into it. */
    hasSamples: boolean;
  }[];
  metricsUrl: string;
  /** Where tenants are reached, unless each is reached at a port of its own. */
  gatewayPort: number | undefined;
  /** A link that signs in whoever opens it first. */
  dashboard: string | undefined;
  stateDir: string;
  /** Path; undefined: there is none. */
  kubectl: string | undefined;
  pid: number;
}

type Tenant = UpSummary['tenants'][number];

/** How the user starts the CLI, for commands that can be copied. */
interface Invocation {
  /** `npx vc-manager`, with the options that each command needs. */
  command: string;
  stopHint: string;
}

export function renderSummary(summary: UpSummary, { command, stopHint }: Invocation, cli: Cli): string {
  const style = styler(cli.stdout);
  const facts = [
    ['super cluster', summary.superCluster],
    ...(summary.gatewayPort === undefined
      ? []
      : [['gateway', `port ${summary.gatewayPort}, for all tenants`]]),
    ['syncer metrics', summary.metricsUrl],
    ...(summary.dashboard === undefined
      ? []
      : [['dashboard', `${summary.dashboard} (once, within 15 minutes)`]]),
    ['state', summary.stateDir],
  ];
  const tenants = summary.tenants.map((tenant) => [
    tenant.name,
    tenant.namespace,
    tenant.phase,
    tenant.version,
    tenant.endpoint,
  ]);
  return [
    `\n${style(['bold', 'green'], 'Skerry is up.')}\n\n`,
    indented(table(undefined, facts)),
    tenants.length === 0
      ? ''
      : `\n${indented(table(['TENANT', 'NAMESPACE', 'PHASE', 'VERSION', 'ENDPOINT'], tenants))}`,
    `\n${style('bold', 'What to type next')} (in another terminal):\n\n`,
    indented(`${nextCommands(summary, command, cli.env).join('\n')}\n`),
    `\n${stopHint}\n`,
  ].join('');
}

function nextCommands(summary: UpSummary, command: string, env: Cli['env']): string[] {
  const kubectl = isOnPath('kubectl', env) ? 'kubectl' : (summary.kubectl ?? 'kubectl');
  const { tenants } = summary;
  const isReady = ({ phase }: Tenant): boolean => phase === 'Ready';
  const first =
    tenants.find((tenant) => tenant.hasSamples && isReady(tenant)) ?? tenants.find(isReady) ?? tenants[0];
  const lines = [`${command} list`];
  if (first !== undefined) {
    const where = namespaceFlag(first.namespace);
    const file = `${first.name}.kubeconfig`;
    lines.push(
      `${command} kubeconfig ${first.name}${where} > ${file}`,
      `${kubectl} --kubeconfig ${file} get ${first.hasSamples ? `all,pvc -n ${sampleNamespace}` : 'namespaces'}`,
    );
  }
  if (summary.isLocal) {
    lines.push(
      `${command} kubeconfig --super-cluster > super-cluster.kubeconfig`,
      `${kubectl} --kubeconfig super-cluster.kubeconfig get pods -A`,
    );
  }
  lines.push(`${command} create ${freeName(tenants)} --wait`);
  return lines;
}

/** A name that no tenant of the namespace has into which `create` puts one. */
function freeName(tenants: readonly Tenant[]): string {
  const taken = new Set(tenants.filter(({ namespace }) => namespace === 'default').map(({ name }) => name));
  const colours = ['blue', 'green', 'red', 'yellow'].map((colour) => `team-${colour}`);
  const numbered = Array.from({ length: taken.size + 1 }, (_, index) => `team-${index + 1}`);
  return [...colours, ...numbered].find((name) => !taken.has(name)) ?? 'NAME';
}

/** The command as the user would type it: through npm, as an installed command, or as a script. */
export function commandName(env: Cli['env'], script: string | undefined, directory: string): string {
  if (env['npm_lifecycle_event'] !== undefined || env['npm_command'] !== undefined) return 'npx vc-manager';
  if (script === undefined || basename(script) === 'vc-manager') return 'vc-manager';
  // `script` may be a file that the launcher has started.
  const launcher = join(packageRoot(), 'bin', 'vc-manager.js');
  const path = relative(directory, launcher);
  return `node ${quoted(path.startsWith('..') ? launcher : path)}`;
}

/** Quotes a word for the shell. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

function isOnPath(name: string, env: Cli['env']): boolean {
  return (env['PATH'] ?? '').split(delimiter).some((directory) => {
    // npm prepends directories that only its own scripts see.
    if (directory === '' || directory.includes('node_modules')) return false;
    try {
      accessSync(join(directory, name), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}
