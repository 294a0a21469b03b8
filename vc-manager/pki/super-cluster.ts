import type { CertificateAuthority, KeyPair, ServiceAccountKey } from './certificates.ts';
import { ensurePkiDirectory } from './directory.ts';
import {
  apiServerLeaf,
  etcdServerLeaf,
  frontProxyLeaf,
  loopbackHosts,
  userLeaf,
} from './leaf-certificates.ts';
import { pairOf, serviceAccountKeyOf } from './pki-set.ts';

export interface SuperClusterPkiOptions {
  /** First address of its service range. */
  readonly serviceAddress: string;
  /** For example `cluster.local`. */
  readonly clusterDomain: string;
  /** Further hosts under which its API server is reached; loopback and the `kubernetes` Service are always among them. */
  readonly hosts?: readonly string[];
  readonly now: Date;
}

/** The local super cluster's own PKI. It shares no authority with the manager or with any tenant. */
export interface SuperClusterPki {
  readonly servingCa: CertificateAuthority;
  readonly clientCa: CertificateAuthority;
  readonly frontProxyCa: CertificateAuthority;
  readonly etcdCa: CertificateAuthority;
  readonly etcdServer: KeyPair;
  /** The API server's client certificate for its etcd. */
  readonly etcdClient: KeyPair;
  readonly apiserver: KeyPair;
  readonly kubeletClient: KeyPair;
  readonly frontProxyClient: KeyPair;
  /** Group system:masters. */
  readonly admin: KeyPair;
  readonly scheduler: KeyPair;
  readonly controllerManager: KeyPair;
  /** Skerry's own programs, `skerry-manager` and so on: what these users may do, roles say. */
  readonly manager: KeyPair;
  readonly syncer: KeyPair;
  readonly gateway: KeyPair;
  /** The simulated kubelets, user `system:kwok`; in system:masters, as the super cluster has no role for them. */
  readonly kwok: KeyPair;
  readonly serviceAccountKey: ServiceAccountKey;
}

/** Keeps the local super cluster's PKI as files in `directory`; safe to call at every start. */
export async function ensureSuperClusterPki(
  directory: string,
  options: SuperClusterPkiOptions,
): Promise<SuperClusterPki> {
  const { serviceAddress, clusterDomain, hosts = [] } = options;
  const { data } = await ensurePkiDirectory(
    directory,
    {
      authorities: {
        'serving-ca': { commonName: 'skerry super cluster serving CA' },
        'client-ca': { commonName: 'skerry super cluster client CA' },
        'front-proxy-ca': { commonName: 'skerry super cluster front-proxy CA' },
        'etcd-ca': { commonName: 'skerry super cluster etcd CA' },
      },
      serviceAccountKeys: ['service-account'],
      leafs: {
        'etcd-server': etcdServerLeaf(loopbackHosts),
        'etcd-client': { authority: 'etcd-ca', commonName: 'kube-apiserver', usage: ['client'] },
        apiserver: apiServerLeaf(clusterDomain, [serviceAddress, ...loopbackHosts, ...hosts]),
        'kubelet-client': userLeaf('system:kube-apiserver-kubelet-client', 'system:masters'),
        'front-proxy-client': frontProxyLeaf,
        admin: userLeaf('system:admin', 'system:masters'),
        scheduler: userLeaf('system:kube-scheduler'),
        'controller-manager': userLeaf('system:kube-controller-manager'),
        kwok: userLeaf('system:kwok', 'system:masters'),
        manager: userLeaf('skerry-manager'),
        syncer: userLeaf('skerry-syncer'),
        gateway: userLeaf('skerry-gateway'),
      },
    },
    options.now,
  );
  return {
    servingCa: pairOf(data, 'serving-ca'),
    clientCa: pairOf(data, 'client-ca'),
    frontProxyCa: pairOf(data, 'front-proxy-ca'),
    etcdCa: pairOf(data, 'etcd-ca'),
    etcdServer: pairOf(data, 'etcd-server'),
    etcdClient: pairOf(data, 'etcd-client'),
    apiserver: pairOf(data, 'apiserver'),
    kubeletClient: pairOf(data, 'kubelet-client'),
    frontProxyClient: pairOf(data, 'front-proxy-client'),
    admin: pairOf(data, 'admin'),
    scheduler: pairOf(data, 'scheduler'),
    controllerManager: pairOf(data, 'controller-manager'),
    kwok: pairOf(data, 'kwok'),
    manager: pairOf(data, 'manager'),
    syncer: pairOf(data, 'syncer'),
    gateway: pairOf(data, 'gateway'),
    serviceAccountKey: serviceAccountKeyOf(data, 'service-account'),
  };
}
