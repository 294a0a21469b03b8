import { join, resolve } from 'node:path';
import { ensurePkiDirectory, type PairFiles, pairFiles } from './directory.ts';
import { apiServerLeaf, etcdServerLeaf, frontProxyLeaf, loopbackHosts, userLeaf } from './leafs.ts';
import type { Renewal } from './pki-set.ts';

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
  readonly servingCa: PairFiles;
  readonly clientCa: PairFiles;
  readonly frontProxyCa: PairFiles;
  readonly etcdCa: PairFiles;
  readonly etcdServer: PairFiles;
  /** The API server's client certificate for its etcd. */
  readonly etcdClient: PairFiles;
  readonly apiserver: PairFiles;
  readonly kubeletClient: PairFiles;
  readonly frontProxyClient: PairFiles;
  /** Group system:masters. */
  readonly admin: PairFiles;
  readonly scheduler: PairFiles;
  readonly controllerManager: PairFiles;
  /** Skerry's own programs, `skerry-manager` and so on: what these users may do, roles say. */
  readonly manager: PairFiles;
  readonly syncer: PairFiles;
  readonly gateway: PairFiles;
  /** The simulated kubelets, user `system:kwok`; in system:masters, as the super cluster has no role for them. */
  readonly kwok: PairFiles;
  readonly serviceAccountKey: { readonly privateFile: string; readonly publicFile: string };
  readonly renewals: readonly Renewal[];
  readonly renewAt: Date;
}

/** Keeps the local super cluster's PKI as files in `directory`; safe to call at every start. */
export async function ensureSuperClusterPki(
  directory: string,
  options: SuperClusterPkiOptions,
): Promise<SuperClusterPki> {
  const { serviceAddress, clusterDomain, hosts = [] } = options;
  const path = resolve(directory);
  const { data, renewals, renewAt } = await ensurePkiDirectory(
    path,
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
  const files = (name: string): PairFiles => pairFiles(path, data, name);
  return {
    servingCa: files('serving-ca'),
    clientCa: files('client-ca'),
    frontProxyCa: files('front-proxy-ca'),
    etcdCa: files('etcd-ca'),
    etcdServer: files('etcd-server'),
    etcdClient: files('etcd-client'),
    apiserver: files('apiserver'),
    kubeletClient: files('kubelet-client'),
    frontProxyClient: files('front-proxy-client'),
    admin: files('admin'),
    scheduler: files('scheduler'),
    controllerManager: files('controller-manager'),
    kwok: files('kwok'),
    manager: files('manager'),
    syncer: files('syncer'),
    gateway: files('gateway'),
    serviceAccountKey: {
      privateFile: join(path, 'service-account.key'),
      publicFile: join(path, 'service-account.pub'),
    },
    renewals,
    renewAt,
  };
}
