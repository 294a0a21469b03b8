import { type Command, Option } from 'commander';
import { hostInUrl, isLoopback } from '../../../program/addresses.ts';
import { systemNamespaceOption } from '../../../program/flags.ts';
import { hostAndPort } from '../arguments.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { listeningDashboard } from '../dashboard/serve.ts';
import { invalidArgument } from '../errors.ts';
import { stateChoice } from '../state-directory.ts';
import { findSuperCluster } from '../super-cluster.ts';
import { dashboardBackend } from './dashboard-backend.ts';

interface Flags extends GlobalFlags {
  listen: { host: string; port: number };
  systemNamespace: string;
}

const help = `
Serves a page in the browser with all tenants, until Ctrl-C, and prints a link to it. Whoever opens the link first is signed
in as you are by your kubeconfig, for 12 hours; others sign in with a token. Nothing but this machine reaches it. "vc-manager
operator --dashboard-listen" serves the same page to a team.

Examples:
  vc-manager dashboard
  vc-manager dashboard --listen 127.0.0.1:8480 --context production`;

export function configure(command: Command, cli: Cli): void {
  command
    .addOption(
      new Option('--listen <host:port>', 'where it is served, on loopback')
        .argParser(hostAndPort)
        .default({ host: '127.0.0.1', port: 0 }, '127.0.0.1 and a free port'),
    )
    .addOption(systemNamespaceOption('where the syncers have their Leases'))
    .addHelpText('after', help)
    .action(async (_, chosen: Command) => dashboard(cli, chosen.optsWithGlobals<Flags>()));
}

async function dashboard(cli: Cli, flags: Flags): Promise<void> {
  const { host, port } = flags.listen;
  if (!isLoopback(host))
    throw invalidArgument(
      `this dashboard is for you alone, on loopback, and ${host} is beyond it: "vc-manager operator --dashboard-listen ` +
        `${hostInUrl(host)}:${port}" serves a team, with --dashboard-tls-cert and --dashboard-tls-key or behind --dashboard-url`,
    );
  const superCluster = await findSuperCluster(cli, flags);
  const served = await listeningDashboard(cli, {
    backend: dashboardBackend,
    superCluster,
    address: flags.listen,
    stateDir: stateChoice(cli.env, flags).directory,
    systemNamespace: flags.systemNamespace,
    onProblem: (message) => cli.stderr.write(`note: ${message}\n`),
  });
  cli.stdout.write(`${served.link()}\n`);
  cli.stderr.write('Open this link, once; it is good for 15 minutes. Ctrl-C ends the dashboard.\n');
  await served.run(cli.signal);
}
