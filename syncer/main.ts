import { Command, InvalidArgumentError } from 'commander';
import { pino } from 'pino';
import { Connection, KubeClient, loadKubeconfig, systemClock } from '../kube/index.ts';
import { SyncerMetrics } from './metrics/index.ts';
import { defaultOptions } from './settings.ts';
import { Syncer } from './syncer.ts';

interface Flags {
  kubeconfig?: string;
  context?: string;
  workers: number;
  metricsAddress: Address;
  kubeletAddress: Address;
  kubeletAdvertise: string;
  denyKeyPrefix: string[];
  transparentKeyPrefix: string[];
  fair: boolean;
  logLevel: string;
}

interface Address {
  host: string;
  port: number;
}

function address(text: string): Address {
  const match = /^(?:\[(.+)\]|([^:]*)):(\d+)$/.exec(text);
  const port = Number(match?.[3]);
  if (match === null || port > 65_535)
    throw new InvalidArgumentError('give it as HOST:PORT, e.g. 127.0.0.1:10451');
  return { host: match[1] ?? (match[2] === '' ? '0.0.0.0' : (match[2] as string)), port };
}

function positive(text: string): number {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 1)
    throw new InvalidArgumentError('give a whole number of at least 1');
  return number;
}

function collect(text: string, before: string[]): string[] {
  return [...before, text];
}

function command(): Command {
  const { metrics, kubelet } = defaultOptions;
  return new Command('vc-syncer')
    .description('Mirrors objects between tenant control planes and the super cluster.')
    .option('--kubeconfig <file>', 'kubeconfig of the super cluster (default: $KUBECONFIG or ~/.kube/config)')
    .option('--context <name>', 'context of that kubeconfig')
    .option('--workers <n>', 'reconciles at once, over all tenants', positive, defaultOptions.workers)
    .option(
      '--metrics-address <host:port>',
      'where /metrics, /healthz and /readyz are served',
      address,
      metrics,
    )
    .option('--kubelet-address <host:port>', 'where it answers as the kubelet of tenants’ nodes', address, {
      host: kubelet.host,
      port: kubelet.port,
    })
    .option('--kubelet-advertise <address>', 'how tenant API servers reach that', kubelet.advertise)
    .option(
      '--deny-key-prefix <prefix>',
      'labels and annotations that never go down; repeatable',
      collect,
      [],
    )
    .option('--transparent-key-prefix <prefix>', 'labels and annotations copied up; repeatable', collect, [])
    .option('--no-fair', 'serve first come, first served (only to measure what fairness is worth)')
    .option('--log-level <level>', 'trace, debug, info, warn or error', 'info');
}

async function main(): Promise<void> {
  const flags = command().parse().opts<Flags>();
  const logger = pino({ level: flags.logLevel, base: null, timestamp: pino.stdTimeFunctions.isoTime });
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => stop.abort(new Error(`received ${signal}`)));
  }
  const metrics = new SyncerMetrics({ processMetrics: true });
  const connection = new Connection({
    ...(await loadKubeconfig(flags.kubeconfig, flags.context)),
    userAgent: 'vc-syncer',
    onCall: (call) => metrics.apiCall('super', call),
  });
  const syncer = new Syncer(
    {
      workers: flags.workers,
      metrics: flags.metricsAddress,
      kubelet: { ...flags.kubeletAddress, advertise: flags.kubeletAdvertise },
      deniedKeyPrefixes: flags.denyKeyPrefix,
      transparentKeyPrefixes: flags.transparentKeyPrefix,
      fair: flags.fair,
    },
    { superClient: new KubeClient(connection), metrics, clock: systemClock, logger },
  );
  try {
    await syncer.run(stop.signal);
  } finally {
    await connection.close();
  }
}

main().catch((error: unknown) => {
  console.error(`vc-syncer: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
});
