import './stack.ts';
import { cpSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { Binaries, defaultCacheDirectory, defaultVersions } from '../../vc-manager/binaries/index.ts';
import { tenantEgress } from './attacker-server.ts';
import { auditLogOf, rightsFaults } from './rights.ts';
import { makeRunDirectory, removeLeftovers, removeRun, runCli, stateDirOf } from './stack.ts';
import { mayMirrorCustomResources } from './world.ts';

const upTimeoutMs = 600_000;

/**
 * Starts the one stack that all suites share, by the command that a user types, and takes it away again.
 * Manager and syncer have the rights there that the chart gives them: what these refuse, nobody may ask for.
 * SKERRY_E2E_STATE names the state directory of a stack that runs already: it is used, and left running.
 * SKERRY_E2E_LOGS names a directory to copy the logs to at the end.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const running = process.env['SKERRY_E2E_STATE'];
  if (running) {
    await provide(project, running);
    return async () => undefined;
  }
  await removeLeftovers();
  const directory = makeRunDirectory();
  const stateDir = stateDirOf(directory);
  try {
    await start(stateDir);
    await provide(project, stateDir);
  } catch (error) {
    keepLogs(stateDir);
    await removeRun(directory);
    throw error;
  }
  return async () => {
    keepLogs(stateDir);
    const faults = await rightsFaults(stateDir, {
      env: process.env,
      failed: failedSuites(project),
      tell: (line) => console.log(line),
    });
    const left = await removeRun(directory);
    if (faults.length > 0)
      throw new Error(`the roles of manager and syncer do not fit:\n${faults.join('\n')}`);
    if (left.length > 0) throw new Error(`the stack left something behind:\n${left.join('\n')}`);
  };
}

function failedSuites(project: TestProject): number {
  const isDone = (state: string): boolean => state === 'passed' || state === 'skipped';
  const modules = project.vitest.state.getTestModules().filter((each) => each.project === project);
  return modules.filter((each) => !isDone(each.state())).length;
}

async function start(stateDir: string): Promise<void> {
  const args = ['--tenants', '0', '--nodes', '3', '--no-samples', '--unsafe-no-fsync', '--audit'];
  // Where the suites have servers of tenants.
  args.push('--tenant-egress', tenantEgress);
  const { exitCode, stdout, stderr } = await runCli(
    stateDir,
    ['up', '--detach', '--state-dir', stateDir, ...args],
    { timeoutMs: upTimeoutMs },
  );
  if (exitCode !== 0) throw new Error(`"vc-manager up" ended with ${exitCode}:\n${stdout}\n${stderr}`);
}

async function provide(project: TestProject, stateDir: string): Promise<void> {
  const binaries = new Binaries({ cacheDir: defaultCacheDirectory(process.env), env: process.env });
  const kubectl = await binaries.ensure(
    { name: 'kubectl', version: defaultVersions.kubernetes },
    { signal: new AbortController().signal },
  );
  const superKubeconfig = readFileSync(join(stateDir, 'super-cluster', 'admin.kubeconfig'), 'utf8');
  await mayMirrorCustomResources(superKubeconfig);
  project.provide('stack', {
    stateDir,
    superKubeconfig,
    kubectl: kubectl.path,
  });
}

function keepLogs(stateDir: string): void {
  const target = process.env['SKERRY_E2E_LOGS'];
  if (!target) return;
  const audit = auditLogOf(stateDir);
  if (existsSync(audit)) cpSync(audit, join(target, 'audit.log'));
  for (const part of ['stack', 'control-planes']) {
    const source = join(stateDir, part);
    if (!existsSync(source)) continue;
    cpSync(source, join(target, part), {
      recursive: true,
      filter: (path) => !/\/(files|data)$/.test(path),
    });
  }
}
