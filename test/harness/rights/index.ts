import { join } from 'node:path';
import { loadRights, type ProgramName } from '../../../vc-manager/rights.ts';
import { auditLogOf, readAuditLog } from './audit-log.ts';
import { mayBeUnused } from './unused-on-purpose.ts';
import { UseOfRights, type UseOptions } from './use-of-rights.ts';

const chartDirectory = join(import.meta.dirname, '..', '..', '..', 'deploy', 'chart');

/** Set by `npm test` when all end-to-end suites run: then each right has to be of use. */
const completeVariable = 'SKERRY_ALL_SUITES';

/**
 * What manager and syncer of a stack were refused by their roles, and, after all suites, which of their rights nobody
 * used: as sentences. Empty: the roles fit.
 */
export async function rightsFaults(stateDir: string, env: NodeJS.ProcessEnv): Promise<string[]> {
  const use = await useOfRights(stateDir);
  return faultsOf(use, stateDir, env[completeVariable] === '1' ? use.unused : []);
}

/**
 * The same of a release of the chart, by its ServiceAccounts: what they were refused, and which of the rights that
 * are for control planes in the super cluster nobody used.
 */
export async function chartRightsFaults(
  stateDir: string,
  userOf: (program: ProgramName) => string,
): Promise<string[]> {
  const use = await useOfRights(stateDir, { userOf, withKubernetesDriver: true });
  return faultsOf(use, stateDir, use.unusedByDriver);
}

function faultsOf(use: UseOfRights, stateDir: string, unused: readonly string[]): string[] {
  if (!use.isTelling) return [`${auditLogOf(stateDir)} holds no requests of both manager and syncer`];
  return [
    ...use.refused.map((each) => `${each}: add it to deploy/chart/rights, or do not ask for it`),
    ...unused
      .filter((right) => !mayBeUnused(right))
      .map(
        (right) =>
          `${right}: nobody used this right; take it out of deploy/chart/rights, or say why it stays`,
      ),
  ];
}

async function useOfRights(stateDir: string, options: UseOptions = {}): Promise<UseOfRights> {
  const [manager, syncer] = await Promise.all([
    loadRights(chartDirectory, 'manager'),
    loadRights(chartDirectory, 'syncer'),
  ]);
  const use = new UseOfRights({ manager, syncer }, options);
  for await (const asked of readAuditLog(auditLogOf(stateDir))) use.observe(asked);
  return use;
}

export { auditLogOf } from './audit-log.ts';
