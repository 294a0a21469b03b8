import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { Connection, KubeClient, loadKubeconfig, modifyStatus, resources } from '../../kube/index.ts';
import { aloneFrom } from '../tenants/join-order.ts';
import type { Suspect } from './watchdog.ts';

const timeoutMs = 5_000;

/** Has whichever replica takes this tenant up next do so last and alone. */
export async function noteSuspect(
  { namespace, name, uid }: Suspect,
  where: { kubeconfig: string | undefined; context: string | undefined },
): Promise<void> {
  const options = await loadKubeconfig(where.kubeconfig, where.context);
  const connection = new Connection({ ...options, userAgent: 'vc-syncer-watchdog' });
  try {
    await modifyStatus<VirtualCluster>(
      new KubeClient(connection),
      resources.virtualClusters,
      { namespace, name },
      (vc) => {
        const joinAttempts = Math.max(aloneFrom, vc.status?.joinAttempts ?? 0);
        if (vc.metadata.uid !== uid || vc.status?.joinAttempts === joinAttempts) return undefined;
        return { ...vc, status: { ...vc.status, joinAttempts } };
      },
      { timeoutMs },
    );
  } finally {
    await connection.close();
  }
}
