import { secretNames } from '../../../api/names.ts';
import { addressAt } from '../../network/index.ts';
import { ensureTenantPki } from '../../pki/index.ts';
import { pkiLost } from '../errors.ts';
import { readSecret, writeSecret } from '../secrets.ts';
import { isHeld, noteRenewed, renewalAsked } from '../settle.ts';
import type { Step } from './step.ts';

/**
 * Authorities, keys and certificates, kept in a Secret. Written before anything uses them: keys that only
 * a process knew would be lost with it. Renews what is due, and everything when somebody asks for it.
 */
export const certificates: Step = {
  name: 'certificates',
  doing: 'Issuing certificates',
  condition: 'CertificatesReady',
  async run(tenant, services) {
    const { settings, clock } = services;
    const { spec, status } = tenant.vc;
    const heldUntil = isHeld(tenant.vc, 'renewal', clock.now()) ? status?.jobs?.renewalHeldUntil : undefined;
    const name = secretNames(tenant.ref.name).pki;
    const stored = await readSecret(tenant, services, name);
    // What it has started knows the authorities that were in there.
    if (stored === undefined && tenant.wasStarted) throw pkiLost(tenant.ref.namespace, name);
    const { etcdCa } = await services.managerPki();
    const renewal = renewalAsked(tenant.vc);
    const { location } = tenant;
    const ensured = await ensureTenantPki(stored, {
      id: tenant.id,
      clusterDomain: spec?.clusterDomain ?? 'cluster.local',
      serviceAddress: addressAt(tenant.required(status?.serviceCIDR, 'service slice'), 1),
      hosts: [
        ...(location === undefined
          ? [settings.endpointHost, settings.advertiseAddress]
          : [location.host, ...location.names]),
        ...settings.extraHosts,
        ...(spec?.extraNames ?? []),
      ],
      etcdCa,
      wasStarted: tenant.wasStarted,
      renewal,
      isHeld: heldUntil !== undefined,
      ...(location?.datastore === undefined
        ? {}
        : {
            ownDatastore: {
              hosts: [location.datastore.host, ...location.datastore.names],
              isKept: location.datastore.isKept,
            },
          }),
      now: new Date(clock.now()),
    });
    if (stored === undefined || ensured.changed) {
      await writeSecret(tenant, services, name, ensured.data, stored === undefined ? 'absent' : 'there');
    }
    noteRenewed(tenant, renewal);
    // Whoever cancels from here on is told that it is too late.
    if (ensured.changed) await tenant.status.flush();
    tenant.pki = ensured.pki;
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
