import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Command, InvalidArgumentError } from 'commander';
import { execa } from 'execa';
import { Binaries, defaultCacheDirectory, defaultVersions } from '../../vc-manager/binaries/index.ts';
import {
  makeRunDirectory,
  removeLeftovers,
  removeRun,
  runCli,
  type StackInfo,
  stateDirOf,
} from '../harness/stack.ts';
import { NetworkCut } from './faults.ts';
import { runChaos } from './run-chaos.ts';

const upTimeoutMs = 300_000;

interface Flags {
  seed: number;
  seconds: number;
  inside?: boolean;
}

function positive(text: string): number {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 1) throw new InvalidArgumentError('give a whole number from 1');
  return number;
}

function command(): Command {
  return new Command('chaos')
    .description(
      'Starts a stack of its own, kills, pauses and cuts off its parts at random under load, then compares both ' +
        'sides of every tenant. As root on Linux it runs in a network namespace of its own; elsewhere nothing ' +
        'is cut off.',
    )
    .option('--seed <n>', 'the same seed makes the same faults', positive, 1)
    .option('--seconds <n>', 'how long faults go on', positive, 300)
    .option('--inside', 'runs in the network namespace that it was started in');
}

/** In a network namespace of its own, where a firewall rule is nobody else's concern. */
async function runInNamespace(): Promise<number> {
  const self = fileURLToPath(import.meta.url);
  const inner = [process.execPath, self, '--inside', ...process.argv.slice(2)];
  const script =
    'ip link set lo up && ip link add skerry0 type veth peer name skerry1 && ip addr add 10.99.0.1/24 dev skerry0 ' +
    '&& ip link set skerry0 up && ip link set skerry1 up && exec "$@"';
  const { exitCode } = await execa('unshare', ['--net', '--mount', 'bash', '-c', script, 'bash', ...inner], {
    stdio: 'inherit',
    reject: false,
  });
  return exitCode ?? 1;
}

async function startStack(stateDir: string): Promise<StackInfo> {
  const binaries = new Binaries({ cacheDir: defaultCacheDirectory(process.env), env: process.env });
  const kubectl = await binaries.ensure(
    { name: 'kubectl', version: defaultVersions.kubernetes },
    { signal: new AbortController().signal },
  );
  const args = ['--tenants', '0', '--nodes', '3', '--no-samples', '--unsafe-no-fsync'];
  const up = ['up', '--detach', '--state-dir', stateDir, ...args];
  const { exitCode, stdout, stderr } = await runCli(stateDir, up, { timeoutMs: upTimeoutMs });
  if (exitCode !== 0) throw new Error(`"vc-manager up" ended with ${exitCode}:\n${stdout}\n${stderr}`);
  const superKubeconfig = readFileSync(join(stateDir, 'super-cluster', 'admin.kubeconfig'), 'utf8');
  return { stateDir, superKubeconfig, kubectl: kubectl.path };
}

async function main(): Promise<number> {
  const flags = command().parse().opts<Flags>();
  const isRoot = process.platform === 'linux' && process.getuid?.() === 0;
  if (isRoot && flags.inside !== true) return runInNamespace();

  const log = (line: string): void => console.log(line);
  const report = (reason: string): void => log(`nothing is cut off: ${reason}`);
  const cut = isRoot ? await NetworkCut.prepare(report) : undefined;
  if (!isRoot) report('that takes root on Linux');
  await removeLeftovers();
  const directory = makeRunDirectory();
  const wrong: string[] = [];
  try {
    const stack = await startStack(stateDirOf(directory));
    wrong.push(...(await runChaos({ stack, seed: flags.seed, durationMs: flags.seconds * 1000, cut, log })));
  } finally {
    const left = await removeRun(directory);
    await cut?.close();
    wrong.push(...left.map((what) => `the stack left something behind: ${what}`));
  }
  for (const each of wrong) log(`WRONG: ${each}`);
  log(wrong.length === 0 ? 'both sides agree, nothing lost, nothing doubled, nothing left' : 'FAILED');
  return wrong.length === 0 ? 0 : 1;
}

process.exitCode = await main();
