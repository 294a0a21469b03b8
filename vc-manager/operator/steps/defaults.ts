import type { Entry } from '../../etcd/keyspace.ts';
import type { Services } from '../services.ts';
import type { Step } from '../step-runner.ts';
import type { Tenant } from '../tenant.ts';

/*
 * A new API server first creates some 170 objects, the same in each: default roles, flow control, API services. They are
 * written into the datastore before it starts, as an earlier API server of the same template has made them, in this manager's
 * memory. It compares them with what it wants, as at every start, and goes on.
 */

/** By the keys of kube-apiserver's registry. None of them is encrypted, names a place, or identifies a cluster. */
const defaultKeys: readonly string[] = [
  'clusterroles/',
  'clusterrolebindings/',
  'roles/',
  'rolebindings/',
  'prioritylevelconfigurations/',
  'flowschemas/',
  'apiregistration.k8s.io/apiservices/',
];

/** Each takes some 200 KB. */
const mostTemplates = 8;
/** What is more than that is none of Kubernetes. */
const most = { entries: 1_000, bytes: 2 ** 20 };

/** An etcd of its own does not run yet. */
function isNew({ vc, wasStarted, ownDatastore }: Tenant): boolean {
  return !wasStarted && ownDatastore === undefined && vc.spec?.restoreFrom === undefined;
}

function templateOf(tenant: Tenant): string {
  const { version, template } = tenant.required(tenant.choice, 'template');
  const { name, uid, resourceVersion } = template.metadata;
  return [version, name, uid, resourceVersion].join(' ');
}

export const fillDefaults: Step = {
  name: 'defaults',
  doing: 'Writing default roles',
  async run(tenant, { datastore, defaults }) {
    if (!isNew(tenant)) return;
    const { id, signal } = tenant;
    const known = defaults.get(templateOf(tenant));
    if (known !== undefined) await datastore.fillTenant(id, known, { signal });
    else tenant.beganEmpty = tenant.hasNewPki && (await datastore.countTenantKeys(id, { signal })) === 0;
  },
};

/**
 * Keeps what the API server of this tenant has created. Only of one that had nothing before, neither keys nor authorities, and
 * before `bootstrap` and `credentials`: until then nobody but the manager and its own controllers has a certificate, so
 * none of this can be a tenant's. (The templates of this project let nobody log in without one and do anything.)
 */
export const keepDefaults: Step = {
  name: 'keep-defaults',
  doing: 'Reading default roles',
  async run(tenant, services) {
    const { beganEmpty, vc, signal } = tenant;
    if (!beganEmpty || vc.status?.kubeconfigSecret !== undefined) return;
    try {
      const entries = await readDefaults(tenant, services);
      // Another manager may have gone on with it.
      services.assertHeld();
      if (entries === undefined) return;
      if (services.defaults.size >= mostTemplates) services.defaults.clear();
      services.defaults.set(templateOf(tenant), entries);
    } catch (err) {
      // The next tenant is as good for it.
      if (signal.aborted) throw err;
      services.logger.debug({ err, virtualCluster: tenant.key }, 'default roles are not kept');
    }
  },
};

async function readDefaults(
  { id, signal }: Tenant,
  { datastore }: Services,
): Promise<readonly Entry[] | undefined> {
  const found: Entry[] = [];
  let bytes = 0;
  const { entries } = await datastore.viewTenant(id, { signal });
  for await (const entry of entries) {
    if (!defaultKeys.some((each) => entry.key.startsWith(each))) continue;
    bytes += entry.value.length;
    // A template may have all resources encrypted, with a key of each tenant's own.
    if (found.length >= most.entries || bytes > most.bytes || isEncrypted(entry)) return undefined;
    found.push(entry);
  }
  return found;
}

function isEncrypted({ value }: Entry): boolean {
  return Buffer.from(value.subarray(0, 8)).toString() === 'k8s:enc:';
}
