import { isDeepStrictEqual } from 'node:util';
import { crdManifests } from '../../api/crds.ts';
import { group, version } from '../../api/names.ts';
import {
  type Clock,
  CodedError,
  type Condition,
  ignoreNotFound,
  isAlreadyExists,
  isConflict,
  isNotFound,
  type KubeClient,
  type KubeObject,
  resources,
} from '../../kube/index.ts';

type CrdErrorCode = 'CrdNotEstablished' | 'CrdNameConflict';

/** Why the super cluster does not serve Skerry's CustomResourceDefinitions. */
class CrdError extends CodedError<CrdErrorCode> {
  override readonly name = 'CrdError';
}

function crdNotEstablished(name: string, waitedMs: number): CrdError {
  return new CrdError(
    'CrdNotEstablished',
    `the super cluster does not serve CustomResourceDefinition ${name} after ${Math.round(waitedMs / 1000)} s. ` +
      `Look at its conditions: kubectl describe crd ${name}`,
    true,
  );
}

function crdNameConflict(name: string, message: string): CrdError {
  return new CrdError(
    'CrdNameConflict',
    `the super cluster does not accept the names of CustomResourceDefinition ${name}: ${message}. ` +
      'Remove the CustomResourceDefinition that holds them.',
    false,
  );
}

interface EnsureCrdsOptions {
  clock: Clock;
  signal?: AbortSignal | undefined;
}

/** How long the super cluster may take until it serves the new resources. */
const timeoutMs = 30_000;
const pollMs = 100;
const crds = resources.customResourceDefinitions;

/**
 * Creates Skerry's CustomResourceDefinitions or brings them up to date, and returns once the API server
 * serves them. Throws `CrdNameConflict` or `CrdNotEstablished`.
 */
export async function ensureCrds(client: KubeClient, { clock, signal }: EnsureCrdsOptions): Promise<void> {
  const manifests = crdManifests();
  const names = manifests.map((manifest) => manifest.metadata.name ?? '');
  const missing = new Set<string>();
  for (const manifest of manifests) {
    const current = await ensureCrd(client, manifest, signal);
    if (current === undefined || !isEstablished(current)) missing.add(manifest.metadata.name ?? '');
  }
  const areServed = async (): Promise<boolean> => {
    for (const name of missing) {
      if (!isEstablished(await client.get(crds, { name }, { signal }))) return false;
      missing.delete(name);
    }
    return isDiscovered(client, manifests, signal);
  };
  const start = clock.monotonic();
  while (!(await areServed())) {
    const waitedMs = clock.monotonic() - start;
    if (waitedMs > timeoutMs) throw crdNotEstablished(names.join(', '), waitedMs);
    await clock.sleep(pollMs, signal);
  }
}

/** As it is; undefined where it was written just now: its status is of before, and may say what is mended. */
async function ensureCrd(
  client: KubeClient,
  manifest: KubeObject,
  signal: AbortSignal | undefined,
): Promise<CustomResourceDefinition | undefined> {
  const name = manifest.metadata.name ?? '';
  for (;;) {
    try {
      const current = await client.get(crds, { name }, { signal });
      // The spec only: labels that others added stay, and an equal spec costs no write.
      if (isDeepStrictEqual(current['spec'], plain(manifest['spec']))) return current;
      await client.update(crds, { ...current, spec: manifest['spec'] }, { signal });
      return undefined;
    } catch (error) {
      if (isConflict(error)) continue;
      if (!isNotFound(error)) throw error;
    }
    try {
      return await client.create(crds, manifest, { signal });
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
    }
  }
}

// Without undefined fields, as the API server returns it.
function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value));
}

interface CustomResourceDefinition extends KubeObject {
  status?: { conditions?: Condition[] };
}

/** Throws `CrdNameConflict`. */
function isEstablished({ metadata, status }: CustomResourceDefinition): boolean {
  const conditions = status?.conditions ?? [];
  const refused = conditions.find((c) => c.type === 'NamesAccepted' && c.status === 'False');
  if (refused !== undefined)
    throw crdNameConflict(metadata.name ?? '', refused.message ?? refused.reason ?? 'no reason given');
  return conditions.some((c) => c.type === 'Established' && c.status === 'True');
}

async function isDiscovered(
  client: KubeClient,
  manifests: readonly KubeObject[],
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const found = (await ignoreNotFound(client.raw('GET', `/apis/${group}/${version}`, { signal }))) as
    | { resources?: { name: string }[] }
    | undefined;
  const served = new Set(found?.resources?.map((resource) => resource.name));
  return manifests.every((manifest) => served.has((manifest.metadata.name ?? '').split('.', 1)[0] ?? ''));
}
