import { hash } from 'node:crypto';
import { kubeconfigKey, secretNames } from '../../../api/names.ts';
import { renderKubeconfig } from '../../../kube/index.ts';
import type { KeyPair } from '../../pki/index.ts';
import { writeSecret } from '../secrets.ts';
import type { Tenant } from '../tenant.ts';
import type { Step } from './step.ts';

/** The kubeconfigs: one for people, one for the syncer. They follow their certificates. */
export const credentials: Step = {
  name: 'credentials',
  doing: 'Writing kubeconfigs',
  condition: 'CertificatesReady',
  async run(tenant, services) {
    const { leafs, kubeletClientCa, frontProxyCa } = tenant.required(tenant.pki, 'certificates');
    const { kubeconfig, syncer } = secretNames(tenant.ref.name);
    const forPeople = { [kubeconfigKey]: kubeconfigOf(tenant, 'admin', leafs.admin) };
    const forSyncer = {
      [kubeconfigKey]: kubeconfigOf(tenant, 'syncer', leafs.syncer),
      // By these the syncer knows the tenant's API server, when that takes it for a kubelet or for the
      // server of its metrics API.
      'kubelet-client-ca.crt': kubeletClientCa.certPem,
      'front-proxy-ca.crt': frontProxyCa.certPem,
    };
    const likely = tenant.vc.status?.kubeconfigSecret === undefined ? 'absent' : 'there';
    await Promise.all([
      writeSecret(tenant, services, kubeconfig, forPeople, likely),
      writeSecret(tenant, services, syncer, forSyncer, likely),
    ]);
    tenant.status.set({
      kubeconfigSecret: { name: kubeconfig, key: kubeconfigKey },
      // After the Secret: whoever sees another version finds what belongs to it.
      syncerSecret: { name: syncer, key: kubeconfigKey, version: versionOf(forSyncer) },
    });
    // The syncer need not wait for the controllers.
    await tenant.status.flush();
  },
};

function versionOf(data: Readonly<Record<string, string>>): string {
  return hash('sha256', JSON.stringify(data), 'hex').slice(0, 16);
}

// Names that differ from tenant to tenant, so that kubeconfigs can be merged into one file.
function kubeconfigOf(tenant: Tenant, user: string, { certPem, keyPem }: KeyPair): string {
  return renderKubeconfig({
    clusterName: tenant.key,
    server: tenant.required(tenant.vc.status?.endpoint, 'endpoint'),
    ca: tenant.required(tenant.pki, 'certificates').servingCa.certPem,
    user: `${tenant.key}/${user}`,
    cert: certPem,
    key: keyPem,
  });
}
