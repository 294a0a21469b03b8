import { hash, X509Certificate } from 'node:crypto';
import { backgroundPrefix, kubeconfigKey, secretNames } from '../../../api/names.ts';
import { reservedOffsets } from '../../../api/tenant-state.ts';
import type { VirtualClusterStatus } from '../../../api/virtual-cluster.ts';
import { isWarmPoolMember } from '../../../api/warm-pool.ts';
import { renderKubeconfig, withoutUndefined } from '../../../kube/index.ts';
import { isFilledIn } from '../../control-plane/template.ts';
import { isHeld } from '../../jobs/job-status.ts';
import { addressAt } from '../../os/network.ts';
import {
  authorityState,
  type EncryptionState,
  encryptionData,
  ensureAuthorities,
  ensureEncryption,
  ensureTenantPki,
  type KeyPair,
  parseAuthorityRequest,
  reachedStage,
  type TenantPkiOptions,
  writingKey,
} from '../../pki/index.ts';
import { pkiLost } from '../errors.ts';
import { findProvenFormerPki } from '../id-claim.ts';
import {
  authorityRequest,
  recordAuthorities,
  recordRenewed,
  renewalRequest,
  rotationRequest,
} from '../jobs.ts';
import type { Services } from '../services.ts';
import type { GatewaySettings } from '../settings.ts';
import { certificatesIn, confirmCertificates, pkiWith } from '../snapshot-certificates.ts';
import { inTurn, withSnapshot } from '../snapshot-files.ts';
import type { Step } from '../step-runner.ts';
import type { Tenant } from '../tenant.ts';
import {
  findFormerPki,
  internalSecretRef,
  mayHaveFormerSecrets,
  readInternalSecret,
  removeFormerSecret,
  type SecretData,
  verifyCopy,
  writeInternalSecret,
  writeKubeconfigSecret,
} from '../tenant-secrets.ts';
import { gatewayServerName } from './address.ts';

/**
 * Authorities, keys and certificates, kept in a Secret. Written before anything uses them: keys that only
 * a process knew would be lost with it. Renews what is due, and everything when the annotation asks for it.
 */
export const certificates: Step = {
  name: 'certificates',
  doing: 'Issuing certificates',
  condition: 'CertificatesReady',
  async run(tenant, services) {
    const { settings, clock } = services;
    const { spec, status } = tenant.vc;
    const heldUntil = isHeld(tenant.vc, 'renewal', clock.now()) ? status?.jobs?.renewalHeldUntil : undefined;
    const inPlace = await readInternalSecret(tenant, services, 'pki');
    const former =
      inPlace === undefined && mayHaveFormerSecrets(tenant) ? await findFormer(tenant, services) : undefined;
    const found = inPlace ?? former ?? (await fromSnapshot(tenant, services));
    // Components that were started trust the lost authorities.
    if (found === undefined && tenant.wasStarted) throw lost(tenant, services);
    tenant.hasNewPki = found === undefined;
    const stored = found && (await withAuthorities(found, tenant, services));
    const { etcdCa } = await services.managerPki();
    const renewal = renewalRequest(tenant.vc);
    const { location } = tenant;
    const ensured = await ensureTenantPki(stored, {
      id: tenant.id,
      clusterDomain: spec?.clusterDomain ?? 'cluster.local',
      serviceAddress: addressAt(
        tenant.required(status?.serviceCIDR, 'service slice'),
        reservedOffsets.apiServer,
      ),
      hosts: [
        ...(location === undefined
          ? [settings.endpointHost, settings.advertiseAddress]
          : [location.host, ...location.names]),
        ...settings.extraHosts,
        ...gatewayNames(tenant, settings.gateway),
        ...(spec?.extraNames ?? []),
      ],
      etcdCa,
      wasStarted: tenant.wasStarted,
      renewal,
      isHeld: heldUntil !== undefined,
      ...ownDatastoreOf(tenant),
      now: new Date(clock.now()),
    });
    const encryption = ensureEncryption(stored, {
      wasStarted: tenant.wasStarted,
      isConfigured: isFilledIn(
        tenant.required(tenant.choice, 'template'),
        'encryption-provider-config',
        '${encryptionProviders}',
      ),
      reported: status?.encryption?.key,
      request: rotationRequest(tenant.vc),
    });
    const keys = encryptionData(encryption);
    const isKeyChanged = Object.entries(keys).some(([entry, value]) => stored?.[entry] !== value);
    if (inPlace === undefined || stored !== found || ensured.changed || isKeyChanged) {
      const data = { ...ensured.data, ...keys };
      await writeInternalSecret(tenant, services, 'pki', data, inPlace === undefined ? 'absent' : 'there');
      if (former !== undefined) await verifyCopy(tenant, services, 'pki', data);
    }
    // Also of a Secret that an earlier attempt has written.
    if (spec?.restoreFrom !== undefined && spec.restoreCertificates === true && !tenant.wasStarted)
      await confirmCertificates(tenant, services, { ...ensured.data, ...keys });
    // Also when a manager that has copied it died before it could remove it.
    if (former !== undefined || (inPlace !== undefined && mayHaveFormerSecrets(tenant)))
      await removeFormerSecret(tenant, services, 'pki');
    tenant.encryption = encryption;
    recordEncryption(tenant);
    recordRenewed(tenant, renewal);
    // From here on a cancel request is refused.
    if (ensured.changed) await tenant.status.flush();
    tenant.pki = ensured.pki;
    tenant.authorities = authorityState(ensured.data);
    recordExpiries(tenant, ensured.data);
    const stage = tenant.authorities.renewal?.stage;
    if (stage !== undefined && tenant.vc.status?.authorities?.stage !== stage)
      tenant.status.set({ authorities: { stage } });
    tenant.renewAt = heldUntil === undefined ? ensured.renewAt : new Date(heldUntil);
    const due = ensured.renewAt.toISOString();
    tenant.status.set({ certificatesDue: due });
    tenant.status.condition(
      'CertificatesReady',
      'True',
      'Issued',
      `Certificates are issued; the next is due ${due}.`,
    );
  },
};

/** Of one that takes over those of the snapshot that it is made from: read to its end, as only then it is known to be whole. */
async function fromSnapshot(tenant: Tenant, services: Services): Promise<SecretData | undefined> {
  const { restoreFrom, restoreCertificates } = tenant.vc.spec ?? {};
  if (restoreFrom === undefined || restoreCertificates !== true || tenant.wasStarted) return undefined;
  return inTurn(tenant, services, () =>
    withSnapshot(tenant, services, restoreFrom, async ({ header, entries }) => {
      // Before it is read: one that does not get them asks again and again. `confirmCertificates` looks once more.
      const certificates = await certificatesIn(header, tenant, services);
      for await (const _ of entries);
      return pkiWith(certificates);
    }),
  );
}

function ownDatastoreOf(tenant: Tenant): Pick<TenantPkiOptions, 'ownDatastore'> {
  const { ownDatastore, other } = tenant;
  const found = ownDatastore ?? other?.datastore;
  if (found === undefined) return {};
  const { host, names, isKept } = found;
  return { ownDatastore: { hosts: [host, ...names], isKept, isBeside: ownDatastore === undefined } };
}

/** With the stage of a renewal of its authorities that is due. */
async function withAuthorities(found: SecretData, tenant: Tenant, { clock }: Services): Promise<SecretData> {
  const asked = tenant.wasReady ? authorityRequest(tenant.vc) : undefined;
  const request = asked === undefined ? undefined : parseAuthorityRequest(asked);
  const signer = tenant
    .required(tenant.choice, 'template')
    .template.spec.components.some(({ args = {} }) =>
      Object.entries(args).some(
        ([flag, value]) =>
          flag.startsWith('cluster-signing') && String(value).includes('${file:client-ca.crt}'),
      ),
    );
  if (request !== undefined && signer) {
    tenant.unfinished = {
      failing:
        'the authorities are not renewed: the template signs with ${file:client-ca.crt}, which would hold two of them; ' +
        'name ${file:client-signing-ca.crt} in the flags cluster-signing-* there',
      againAfterMs: 60_000,
    };
    return found;
  }
  return ensureAuthorities(found, { id: tenant.id, request, now: new Date(clock.now()) });
}

function recordExpiries(tenant: Tenant, data: SecretData): void {
  const certificates = Object.keys(data)
    .filter((entry) => entry.endsWith('.crt'))
    .sort()
    .map((entry) => {
      const { ca, validToDate } = new X509Certificate(data[entry] ?? '');
      const kind = ca ? ('authority' as const) : ('certificate' as const);
      return { name: entry.slice(0, -4), kind, expires: validToDate.toISOString() };
    });
  tenant.status.set({ certificates });
}

/**
 * The PKI that an earlier version keeps beside the VirtualCluster. One that was not started yet has it in use nowhere:
 * there it counts only with the proof that this manager has issued it.
 */
async function findFormer(tenant: Tenant, services: Services): Promise<SecretData | undefined> {
  return tenant.wasStarted
    ? findFormerPki(tenant, services)
    : findProvenFormerPki(tenant, services, tenant.id);
}

function lost(tenant: Tenant, services: Services): Error {
  const { namespace, name } = internalSecretRef(services, tenant.id, 'pki');
  return pkiLost(namespace, name);
}

/** Shows in the status which key writes, and at which stage of a rotation it is. */
function recordEncryption(tenant: Tenant): void {
  const encryption = tenant.required(tenant.encryption, 'encryption key');
  const key = writingKey(encryption)?.name;
  const { stage } = encryption.rotation ?? {};
  tenant.status.set({ encryption: withoutUndefined({ key, rotation: stage }) });
}

/** Stores a later stage of a rotation in the tenant's PKI Secret, before any API server learns of it. */
export async function writeEncryption(
  tenant: Tenant,
  services: Services,
  encryption: EncryptionState,
): Promise<void> {
  const stored = await readInternalSecret(tenant, services, 'pki');
  if (stored === undefined) throw lost(tenant, services);
  await writeInternalSecret(tenant, services, 'pki', { ...stored, ...encryptionData(encryption) });
  tenant.encryption = encryption;
  recordEncryption(tenant);
}

/** Writes the kubeconfigs, one for people and one for the syncer, anew with each new certificate. */
export const credentials: Step = {
  name: 'credentials',
  doing: 'Writing kubeconfigs',
  condition: 'CertificatesReady',
  async run(tenant, services) {
    // There are to be none before it has an owner; and without them no syncer takes it up.
    if (isWarmPoolMember(tenant.vc, services.settings.namespace)) return;
    const { leafs, trust } = tenant.required(tenant.pki, 'certificates');
    const { gateway } = tenant.vc.status ?? {};
    const forPeople = { [kubeconfigKey]: kubeconfigOf(tenant, 'admin', leafs.admin, gateway) };
    const forSyncer = {
      [kubeconfigKey]: kubeconfigOf(tenant, 'syncer', leafs.syncer),
      // With these the syncer authenticates the tenant's API server, which calls it as a kubelet and as its metrics API.
      'kubelet-client-ca.crt': trust.kubeletClientCa,
      'front-proxy-ca.crt': trust.frontProxyCa,
    };
    const { status } = tenant.vc;
    const isMoving = mayHaveFormerSecrets(tenant);
    const likely = (isThere: boolean): 'there' | 'absent' => (isThere ? 'there' : 'absent');
    await Promise.all([
      writeKubeconfigSecret(tenant, services, forPeople, likely(status?.kubeconfigSecret !== undefined)),
      writeInternalSecret(tenant, services, 'syncer', forSyncer, likely(!isMoving)),
    ]);
    if (isMoving) await removeFormerSecret(tenant, services, 'syncer');
    tenant.status.set({
      kubeconfigSecret: { name: secretNames(tenant.ref.name).kubeconfig, key: kubeconfigKey },
      // After the Secret: a syncer that sees the new version reads the new content.
      syncerSecret: {
        ...internalSecretRef(services, tenant.id, 'syncer'),
        key: kubeconfigKey,
        version: versionOf(forSyncer),
      },
    });
    // The syncer need not wait for the controllers.
    await tenant.status.flush();
  },
};

function gatewayNames(tenant: Tenant, gateway: GatewaySettings | undefined): string[] {
  if (gateway === undefined) return [];
  const serverName = gatewayServerName(tenant.id, gateway);
  return [
    serverName,
    `${backgroundPrefix}${serverName}`,
    ...(gateway.host === undefined ? [] : [gateway.host]),
  ];
}

function versionOf(data: Readonly<Record<string, string>>): string {
  return hash('sha256', JSON.stringify(data), 'hex').slice(0, 16);
}

// Names are unique per tenant, so that kubeconfigs can be merged into one file.
function kubeconfigOf(
  tenant: Tenant,
  user: string,
  { certPem, keyPem }: KeyPair,
  gateway?: VirtualClusterStatus['gateway'],
): string {
  return renderKubeconfig({
    clusterName: tenant.key,
    server: gateway?.server ?? tenant.required(tenant.vc.status?.endpoint, 'endpoint'),
    // A port of the tenant's own needs no name.
    tlsServerName: gateway?.server.endsWith(`:${gateway.port}`) === true ? undefined : gateway?.serverName,
    ca: tenant.required(tenant.pki, 'certificates').trust.servingCa,
    user: `${tenant.key}/${user}`,
    cert: certPem,
    key: keyPem,
  });
}

/**
 * Waits out the stages of a renewal of the authorities. The step `certificates` begins each of them in the PKI Secret, and
 * the steps between bring it to the control plane and into the kubeconfigs: this one notes when that is done, and has the
 * next reconcile come when the stage has lasted long enough. So a manager that is killed leaves a stage, and how long it
 * lasts counts from when the control plane had taken it up.
 */
export const authorities: Step = {
  name: 'authorities',
  doing: 'Renewing the authorities',
  condition: 'CertificatesReady',
  async run(tenant, services) {
    const { followed, renewal, tokenKey } = tenant.required(tenant.authorities, 'authorities');
    if (tokenKey !== undefined) tenant.status.set({ tokenKey });
    if (renewal === undefined) {
      recordAuthorities(tenant, followed);
      tenant.status.set(({ authorities: _, ...status }) => status);
      return;
    }
    await tenant.components;
    const reachedAt = renewal.reachedAt ?? (await reached(tenant, services));
    const endMs = Date.parse(reachedAt) + renewal.overlapMs;
    const until = new Date(endMs).toISOString();
    tenant.status.set({ authorities: { stage: renewal.stage, until } satisfies Stage });
    const againAfterMs = Math.max(1_000, endMs - services.clock.now());
    tenant.lookAgainMs = Math.min(tenant.lookAgainMs, againAfterMs);
    // Another job that is under way ends without waiting for it.
    if (tenant.vc.status?.jobs?.current?.kind === 'authority-renewal')
      tenant.unfinished ??= { progress: `${doing[renewal.stage]}, until ${until}`, againAfterMs };
  },
};

type Stage = NonNullable<VirtualClusterStatus['authorities']>;

const doing = {
  distribute: 'everything learns to trust the new authorities; the old ones sign',
  overlap: 'the new authorities sign; the old ones are still trusted',
} as const;

async function reached(tenant: Tenant, services: Services): Promise<string> {
  const now = new Date(services.clock.now());
  const stored = (await readInternalSecret(tenant, services, 'pki')) ?? {};
  const data = reachedStage(stored, now);
  if (data !== stored) await writeInternalSecret(tenant, services, 'pki', data);
  const { renewal, tokenKey } = authorityState(data);
  if (tokenKey !== undefined) tenant.status.set({ tokenKey });
  return renewal?.reachedAt ?? now.toISOString();
}
