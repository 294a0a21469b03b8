import { resources } from '../kube/index.ts';
import type { KubeletProxy } from './kubelet/index.ts';
import type { DirectoryHooks, TenantSession } from './tenants/index.ts';
import type { PodTraces } from './trace/index.ts';

/** Whom the kubelet proxy serves, and whose pods are traced, is whom this syncer serves. */
export function forSessions(
  kubelet: KubeletProxy,
  traces: PodTraces,
): Pick<DirectoryHooks, 'serving' | 'leaving'> {
  return {
    serving: (session, authorities) => {
      const { info, label, caches } = session.state;
      traces.follow(info.uid, label, caches.store(resources.pods));
      kubelet.serve(asKubeletSees(session), authorities);
    },
    leaving: (uid) => {
      traces.leave(uid);
      kubelet.leave(uid);
    },
  };
}

function asKubeletSees(session: TenantSession): Parameters<KubeletProxy['serve']>[0] {
  const { state } = session;
  return {
    get isComplete() {
      return session.isJoined;
    },
    client: state.client,
    context: () => state.context(),
    pods: () => state.caches.store(resources.pods).list(),
    nodes: () => state.caches.store(resources.nodes).list(),
    superNamespace: (namespace) => state.superNamespace(namespace),
  };
}
