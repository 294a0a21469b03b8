import '../../harness/stack.ts';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { refusals } from '../../harness/rights.ts';
import { type ClusterInfo, stackOf } from '../cluster/cluster-info.ts';
import { startCluster, stopCluster } from '../cluster/start-cluster.ts';

declare module 'vitest' {
  interface ProvidedContext {
    cluster: ClusterInfo;
  }
}

/**
 * Starts the one super cluster with two real nodes that all suites share. SKERRY_REAL_NODE_CLUSTER names the
 * directory of one that is up already: it is used, and left running. In the end nobody may have been refused anything.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const running = process.env['SKERRY_REAL_NODE_CLUSTER'];
  if (running) {
    const info = JSON.parse(readFileSync(join(running, 'cluster.json'), 'utf8')) as ClusterInfo;
    await provide(project, info);
    return () => conclude(info);
  }
  const directory = join(tmpdir(), `skerry-real-node-${process.pid}`);
  const logs = process.env['SKERRY_E2E_LOGS'];
  if (logs) mkdirSync(logs, { recursive: true });
  const logFile = logs ? join(logs, 'real-node.log') : `${directory}.log`;
  const info = await startCluster({
    directory,
    nodes: 2,
    logFile,
    tell: (line) => console.log(line),
  });
  await provide(project, info);
  return async () => {
    try {
      await conclude(info);
    } finally {
      await stopCluster(directory);
    }
    if (!logs) rmSync(logFile, { force: true });
  };
}

async function conclude(info: ClusterInfo): Promise<void> {
  const logs = process.env['SKERRY_E2E_LOGS'];
  if (logs) keepLogs(info, logs);
  const faults = await refusals(info.stateDir);
  if (faults.length > 0) throw new Error(`the roles of manager and syncer do not fit:\n${faults.join('\n')}`);
}

function keepLogs({ directory, nodes }: ClusterInfo, target: string): void {
  const sources = [
    join('state', 'stack', 'logs'),
    join('state', 'control-planes'),
    ...nodes.map(({ name }) => join('nodes', name, 'logs')),
  ];
  for (const source of sources.filter((each) => existsSync(join(directory, each)))) {
    cpSync(join(directory, source), join(target, 'real-node', source), {
      recursive: true,
      filter: (path) => !/\/(files|data)$/.test(path),
    });
  }
}

async function provide(project: TestProject, info: ClusterInfo): Promise<void> {
  project.provide('cluster', info);
  project.provide('stack', await stackOf(info));
}
