import { renderKubeconfig } from '../../../kube/index.ts';
import { kubeconfigKey, secretNames } from '../../api/index.ts';
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
    const { leafs } = tenant.required(tenant.pki, 'certificates');
    const { kubeconfig, syncer } = secretNames(tenant.ref.name);
    const write = (name: string, user: string, pair: KeyPair): Promise<void> =>
      writeSecret(tenant, services, name, { [kubeconfigKey]: kubeconfigOf(tenant, user, pair) });
    await write(kubeconfig, 'admin', leafs.admin);
    await write(syncer, 'syncer', leafs.syncer);
    tenant.status.set({
      kubeconfigSecret: { name: kubeconfig, key: kubeconfigKey },
      syncerSecret: { name: syncer, key: kubeconfigKey },
    });
  },
};

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
