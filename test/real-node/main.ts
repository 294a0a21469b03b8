import { parseArgs } from 'node:util';
import { Cache, type ProgramName, provideProgram } from './build/programs.ts';
import { prepareCluster } from './cluster/prepare.ts';
import { startCluster, stopCluster } from './cluster/start-cluster.ts';
import { type ImageName, imageRecipes, suiteImages } from './images/recipes.ts';
import { listClaims, whyNot } from './machine/machine.ts';

const usage = `A super cluster with real nodes on this machine, for tests and for looking around. Needs root.

  main.ts up --state-dir DIR [--nodes N] [--dns] [--images all]   starts it and returns
     [--service-range CIDR] [--pod-security LEVEL]                as other clusters are
  main.ts hold --state-dir DIR                                    starts it, and removes it when it is itself ended
  main.ts down --state-dir DIR                                    removes it without a trace
  main.ts list                                                    what is up on this machine
  main.ts check                                                   why this machine cannot; silent when it can
  main.ts prepare [--images all]                                  builds all that is needed, into the cache
  main.ts build NAME...                                           builds programs, and prints their paths
`;

const tell = (line: string): void => console.error(line);

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      'state-dir': { type: 'string' },
      nodes: { type: 'string', default: '1' },
      dns: { type: 'boolean', default: false },
      images: { type: 'string', default: 'suite' },
      'service-range': { type: 'string' },
      'pod-security': { type: 'string' },
    },
  });
  const [command, ...rest] = positionals;
  const directory = values['state-dir'];
  const images = values.images === 'all' ? (Object.keys(imageRecipes) as ImageName[]) : suiteImages;
  const cache = () => new Cache({ env: process.env, signal: new AbortController().signal, tell });
  const start = (isDetached: boolean) =>
    startCluster({
      directory: directory ?? '',
      nodes: Number(values.nodes),
      withDns: values.dns,
      images,
      ...(values['service-range'] && { serviceRange: values['service-range'] }),
      ...(values['pod-security'] && { podSecurity: values['pod-security'] as 'baseline' | 'restricted' }),
      isDetached,
      tell,
    });
  if (command === 'up' && directory !== undefined) {
    const info = await start(true);
    console.log(`super cluster   ${info.superKubeconfigFile}
tenants         vc-manager --state-dir ${info.stateDir} create NAME --wait
API servers at  ${info.address}, pods in ${info.podRange}
${info.nodes.map(({ name, pid }) => `${name}          nsenter -t ${pid} -a`).join('\n')}`);
  } else if (command === 'hold' && directory !== undefined) {
    await start(false);
    console.log('up');
    await new Promise((resolve) => process.stdin.once('end', resolve).resume());
    await stopCluster(directory);
  } else if (command === 'down' && directory !== undefined) {
    console.log((await stopCluster(directory)) ? 'removed' : 'nothing there');
  } else if (command === 'list') {
    for (const { directory: place, keeper, isLive } of await listClaims()) {
      console.log(`${place}  ${isLive ? `kept by process ${keeper.pid}` : 'abandoned'}`);
    }
  } else if (command === 'check') {
    const reason = whyNot(process.env);
    if (reason !== undefined) console.log(reason);
    return reason === undefined ? 0 : 1;
  } else if (command === 'prepare') {
    await prepareCluster(cache(), images);
  } else if (command === 'build' && rest.length > 0) {
    for (const name of rest) console.log(await provideProgram(cache(), name as ProgramName));
  } else {
    console.error(usage);
    return 2;
  }
  return 0;
}

try {
  process.exitCode = await main();
} catch (error) {
  console.error(`error: ${(error as Error).message}`);
  process.exitCode = 1;
}
