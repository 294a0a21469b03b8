import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Command, Option } from 'commander';
import { loadAssets } from '../../../dashboard/assets.ts';
import type { Backend } from '../../../dashboard/backend.ts';
import { Dashboard } from '../../../dashboard/dashboard.ts';
import type { OidcSettings } from '../../../dashboard/oidc.ts';
import { type ConnectionOptions, messageOf } from '../../../kube/index.ts';
import { isLoopback } from '../../../program/addresses.ts';
import { repeatable } from '../../../program/flags.ts';
import { packageRoot } from '../../../program/package-root.ts';
import type { OnProblem } from '../../drivers/driver.ts';
import { addressRanges } from '../arguments.ts';
import type { Cli } from '../context.ts';
import { invalidArgument } from '../errors.ts';

/** Options that say who reaches the dashboard, and who is let in. */
export interface DashboardFlags {
  dashboardUrl?: string;
  dashboardTlsCert?: string;
  dashboardTlsKey?: string;
  dashboardTrustedProxy?: string[];
  dashboardOidcIssuer?: string;
  dashboardOidcClientId?: string;
  dashboardOidcClientSecretFile?: string;
  dashboardOidcGroup?: string[];
  dashboardOidcGroupsPrefix: string;
  dashboardOidcGroupsClaim: string;
  dashboardOidcUsernameClaim: string;
}

export function addDashboardOptions(command: Command): Command {
  return command
    .option(
      '--dashboard-url <url>',
      'where people reach the dashboard: needed for OIDC, and beyond loopback unless it has a certificate itself',
      httpUrl,
    )
    .option('--dashboard-tls-cert <file>', 'the certificate of the dashboard, in PEM')
    .option('--dashboard-tls-key <file>', 'its key')
    .addOption(
      new Option(
        '--dashboard-trusted-proxy <address-or-range>',
        'of a proxy in front of it, which is believed when X-Forwarded-For says who asks; repeatable (default: none)',
      ).argParser(addressRanges),
    )
    .option('--dashboard-oidc-issuer <url>', 'let people sign in to the dashboard there, too', httpUrl)
    .option('--dashboard-oidc-client-id <id>', 'as which client')
    .option('--dashboard-oidc-client-secret-file <file>', 'unless it is a public client')
    .option(
      '--dashboard-oidc-group <group>',
      'whoever is in it is let in, and is what RBAC grants PREFIX and group; repeatable',
      repeatable,
    )
    .option('--dashboard-oidc-groups-prefix <prefix>', 'of the groups as RBAC knows them', 'oidc:')
    .option('--dashboard-oidc-groups-claim <claim>', 'of the ID token', 'groups')
    .addOption(
      new Option(
        '--dashboard-oidc-username-claim <claim>',
        'of the ID token: a name for the audit log',
      ).default('email'),
    );
}

function httpUrl(text: string): string {
  if (!URL.canParse(text) || !/^https?:$/.test(new URL(text).protocol))
    throw invalidArgument(`"${text}" is no address: give it as in https://skerry.example.com`);
  return text;
}

/** What the dashboard's backend works with. */
export interface BackendContext {
  clock: Cli['clock'];
  /** Where control planes are that run as processes or containers of this machine. */
  stateDir: string;
  systemNamespace: string;
  onProblem: OnProblem;
}

export interface ServeOptions {
  backend: (context: BackendContext) => Backend;
  superCluster: ConnectionOptions;
  address: { host: string; port: number };
  stateDir: string;
  systemNamespace: string;
  flags?: DashboardFlags;
  sessionKey?: Uint8Array;
  onProblem: (message: string) => void;
}

/** A dashboard that listens. `run` has to be called for it to show anything. */
export async function listeningDashboard(cli: Pick<Cli, 'clock'>, options: ServeOptions): Promise<Dashboard> {
  const { superCluster, address, stateDir, systemNamespace, flags, sessionKey, onProblem } = options;
  const readTls = tlsReader(flags);
  const dashboard = new Dashboard({
    superCluster,
    backend: options.backend({
      ...{ clock: cli.clock, stateDir, systemNamespace },
      onProblem: (error, what) => onProblem(`${what}: ${messageOf(error)}`),
    }),
    assets: await loadAssets(join(packageRoot(), 'dashboard', 'page')),
    systemNamespace,
    url: flags?.dashboardUrl,
    tls: await readTls?.(),
    readTls,
    trustedProxies: flags?.dashboardTrustedProxy,
    oidc: await oidcOf(flags),
    sessionKey,
    now: () => cli.clock.now(),
    onProblem,
  });
  await dashboard.listen(address.host, address.port);
  return dashboard;
}

function tlsReader(
  flags: DashboardFlags | undefined,
): (() => Promise<{ cert: string; key: string }>) | undefined {
  const { dashboardTlsCert: cert, dashboardTlsKey: key } = flags ?? {};
  if (cert === undefined && key === undefined) return undefined;
  if (cert === undefined || key === undefined)
    throw invalidArgument('--dashboard-tls-cert and --dashboard-tls-key need each other');
  return async () => ({ cert: await readFile(cert, 'utf8'), key: await readFile(key, 'utf8') });
}

async function oidcOf(flags: DashboardFlags | undefined): Promise<OidcSettings | undefined> {
  const { dashboardOidcIssuer: issuer, dashboardOidcClientId: clientId, dashboardUrl: url } = flags ?? {};
  if (flags === undefined || issuer === undefined) return undefined;
  const groups = flags.dashboardOidcGroup ?? [];
  if (clientId === undefined || url === undefined || groups.length === 0)
    throw invalidArgument(
      '--dashboard-oidc-issuer needs --dashboard-oidc-client-id, --dashboard-url and at least one --dashboard-oidc-group',
    );
  if (new URL(issuer).protocol !== 'https:' && !isLoopback(new URL(issuer).hostname))
    throw invalidArgument('--dashboard-oidc-issuer has to be an https address');
  const secretFile = flags.dashboardOidcClientSecretFile;
  return {
    issuer,
    clientId,
    ...(secretFile === undefined ? {} : { clientSecret: (await readFile(secretFile, 'utf8')).trim() }),
    usernameClaim: flags.dashboardOidcUsernameClaim,
    groupsClaim: flags.dashboardOidcGroupsClaim,
    groupsPrefix: flags.dashboardOidcGroupsPrefix,
    groups,
    scopes: ['openid', 'profile', 'email', 'groups'],
  };
}
