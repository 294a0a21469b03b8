import { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../../kube/index.ts';
import { dashboardBackend } from '../commands/dashboard-backend.ts';
import { addDashboardOptions, type DashboardFlags, listeningDashboard } from './serve.ts';

/** Why these options are refused. */
async function refusal(...args: string[]): Promise<string> {
  const command = addDashboardOptions(new Command().exitOverride().configureOutput({ writeErr: () => {} }));
  try {
    command.parse(args, { from: 'user' });
    const dashboard = await listeningDashboard(
      { clock: systemClock },
      {
        backend: dashboardBackend,
        superCluster: { server: 'http://127.0.0.1:1' },
        ...{ address: { host: '127.0.0.1', port: 0 }, stateDir: '/nowhere', systemNamespace: 's' },
        flags: command.opts<DashboardFlags>(),
        onProblem: () => undefined,
      },
    );
    await dashboard.run(AbortSignal.abort()).catch(() => undefined);
    return 'none';
  } catch (error) {
    return (error as Error).message;
  }
}

const oidc = ['--dashboard-oidc-issuer', 'https://id.example.com'];
const client = ['--dashboard-oidc-client-id', 'skerry', '--dashboard-url', 'https://skerry.example.com'];
const group = ['--dashboard-oidc-group', 'operators'];

describe('the options of the dashboard', () => {
  it.each([
    ['a certificate without its key', ['--dashboard-tls-cert', 'x'], 'need each other'],
    ['a key without its certificate', ['--dashboard-tls-key', 'x'], 'need each other'],
    ['an issuer without a client', [...oidc, ...group], 'needs --dashboard-oidc-client-id'],
    ['an issuer without a group that is let in', [...oidc, ...client], 'at least one --dashboard-oidc-group'],
    [
      'an issuer that is asked in the clear',
      ['--dashboard-oidc-issuer', 'http://id.example.com', ...client, ...group],
      'has to be an https address',
    ],
    ['an address that is none', ['--dashboard-url', 'skerry.example.com'], 'is no address'],
    ['an address of another scheme', ['--dashboard-url', 'file:///etc'], 'is no address'],
  ])('are refused for %s', async (_what, args, why) => {
    expect(await refusal(...args)).toContain(why);
  });

  it('may name an issuer on loopback in the clear', async () => {
    const issuer = ['--dashboard-oidc-issuer', 'http://127.0.0.1:1'];
    expect(await refusal(...issuer, ...client, ...group)).not.toContain('https address');
  });
});
