import type { Logger } from 'pino';
import type { ControlPlaneTemplate } from '../../../api/control-plane-template.ts';
import { labelKeys } from '../../../api/labels.ts';
import { type Clock, type KubeClient, resources } from '../../../kube/index.ts';
import type { ManagerPki } from '../../pki/index.ts';
import { ensureCrds } from '../ensure-crds.ts';
import { ensureObject, find } from '../objects.ts';
import type { Services } from '../services.ts';
import type { OperatorSettings } from '../settings.ts';
import { uidOfKubeSystem } from '../steps/index.ts';
import { readSuperVersion } from '../super-version.ts';
import { handingOn } from './kubelet-proxy.ts';
import { ensureServicePool, readServicePool } from './service-pool.ts';
import { ensureTemplates } from './templates.ts';

export type { ServicePool } from './service-pool.ts';

export interface SetupOptions {
  client: KubeClient;
  settings: OperatorSettings;
  templates: readonly ControlPlaneTemplate[];
  managerPki: () => Promise<ManagerPki>;
  clock: Clock;
  logger: Logger;
}

/** The namespace for what belongs to Skerry itself: made where it is missing, and left as it is where it is there. */
export async function ensureNamespace(client: KubeClient, name: string, signal: AbortSignal): Promise<void> {
  if ((await find(client, resources.namespaces, { name }, signal)) !== undefined) return;
  const namespace = { metadata: { name, labels: { [labelKeys.managedBy]: 'skerry' } } };
  await ensureObject(client, resources.namespaces, namespace, { signal, likely: 'absent' });
}

export type Prepared = Pick<Services, 'pool' | 'superIdentity' | 'superVersion' | 'managerPki'>;

/** What the manager that leads has prepared, for one that does not. Changes nothing. */
export async function lookAtSuperCluster(
  client: KubeClient,
  settings: OperatorSettings,
  signal: AbortSignal,
): Promise<Omit<Prepared, 'managerPki'>> {
  const [pool, superIdentity, superVersion] = await Promise.all([
    readServicePool(client, settings, signal),
    uidOfKubeSystem(client, signal),
    readSuperVersion(client, signal),
  ]);
  return { pool, superIdentity, superVersion };
}

/** All that the super cluster needs before the first VirtualCluster. May be repeated at any time. */
export async function prepareSuperCluster(
  { client, settings, templates, managerPki, clock, logger }: SetupOptions,
  signal: AbortSignal,
): Promise<Prepared> {
  await ensureCrds(client, { clock, signal });
  await ensureTemplates(client, templates, signal);
  const handedOn = handingOn(managerPki, client, settings.namespace, signal);
  await handedOn();
  const pool = await ensureServicePool(client, settings, logger, signal);
  return {
    managerPki: handedOn,
    pool,
    superIdentity: await uidOfKubeSystem(client, signal),
    superVersion: await readSuperVersion(client, signal),
  };
}
