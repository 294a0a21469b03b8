import { secretNames } from '../../api/index.ts';
import { addressAt } from '../../network/index.ts';
import { ensureTenantPki } from '../../pki/index.ts';
import { readSecret, writeSecret } from '../secrets.ts';
import type { Step } from './step.ts';

/**
 * Authorities, keys and certificates, kept in a Secret. Written before anything uses them: keys that only
 * a process knew would be lost with it. Renews what is due.
 */
export const certificates: Step = {
  name: 'certificates',
  doing: 'Issuing certificates',
  condition: 'CertificatesReady',
  async run(tenant, services) {
    const { settings, clock } = services;
    const { spec, status } = tenant.vc;
    const name = secretNames(tenant.ref.name).pki;
    const stored = await readSecret(tenant, services, name);
    const { etcdCa } = await services.managerPki();
    const ensured = await ensureTenantPki(stored, {
      id: tenant.id,
      clusterDomain: spec?.clusterDomain ?? 'cluster.local',
      serviceAddress: addressAt(tenant.required(status?.serviceCIDR, 'service slice'), 1),
      hosts: [
        settings.endpointHost,
        settings.advertiseAddress,
        ...settings.extraHosts,
        ...(spec?.extraNames ?? []),
      ],
      etcdCa,
      now: new Date(clock.now()),
    });
    if (stored === undefined || ensured.changed) {
      await writeSecret(tenant, services, name, ensured.data, stored === undefined ? 'absent' : 'there');
    }
    tenant.pki = ensured.pki;
    tenant.renewAt = ensured.renewAt;
    const due = ensured.renewAt.toISOString();
    tenant.status.condition(
      'CertificatesReady',
      'True',
      'Issued',
      `Certificates are issued; the next is due ${due}.`,
    );
  },
};
