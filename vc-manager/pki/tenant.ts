import { tenantUser } from '../etcd/grants.ts';
import { authorityCommonName, type TenantTrust, trustOf } from './authority-renewal.ts';
import type { CertificateAuthority, KeyPair, ServiceAccountKey } from './certificates.ts';
import {
  apiServerLeaf,
  etcdServerLeaf,
  frontProxyLeaf,
  loopbackHosts,
  userLeaf,
} from './leaf-certificates.ts';
import { type EnsuredPki, ensurePkiSet, type PkiData, pairOf, serviceAccountKeyOf } from './pki-set.ts';

export interface TenantPkiOptions {
  /** `status.id` of the VirtualCluster. */
  readonly id: string;
  /** For example `cluster.local`. */
  readonly clusterDomain: string;
  /** First address of the tenant's service range, where its `kubernetes` Service lives. */
  readonly serviceAddress?: string;
  /** Hosts under which the API server is published, and `spec.extraNames`: DNS names or addresses. */
  readonly hosts: readonly string[];
  /** The manager's: it signs the tenant's way into the datastore. */
  readonly etcdCa: CertificateAuthority;
  /** An etcd of its own, with an authority of its own: under which hosts its API servers reach it. */
  readonly ownDatastore?: {
    readonly hosts: readonly string[];
    readonly isKept?: boolean;
    /** API servers use the shared one: their certificate is for that. */
    readonly isBeside?: boolean;
  };
  /** Its datastore trusts the authority that was made for it: another one is not made. */
  readonly wasStarted?: boolean;
  /** See `PkiSpec`, as is `isHeld`. */
  readonly renewal?: string | undefined;
  readonly isHeld?: boolean;
  readonly now: Date;
}

/** Separate authorities: a certificate signed by one means nothing where another is trusted. */
export interface TenantPki {
  /** Signs users of the tenant's API server. */
  readonly clientCa: CertificateAuthority;
  /** Signs the tenant's API server. */
  readonly servingCa: CertificateAuthority;
  /** Signs front proxies, which may assert users (`--requestheader-client-ca-file`). */
  readonly frontProxyCa: CertificateAuthority;
  /** Signs the API server's client certificate for kubelets: by it the kubelet proxy tells tenants apart. */
  readonly kubeletClientCa: CertificateAuthority;
  readonly serviceAccountKey: ServiceAccountKey;
  /** More than the ones above while they are renewed. */
  readonly trust: TenantTrust;
  /** Signs the tenant's own etcd and its client; only where it has one. */
  readonly etcdCa?: CertificateAuthority;
  readonly leafs: {
    readonly apiserver: KeyPair;
    /** Its common name is `tenant-<id>`, which the kubelet proxy expects beside the right authority. */
    readonly kubeletClient: KeyPair;
    /** Its common name is `front-proxy-client`: the value for `--requestheader-allowed-names`. */
    readonly frontProxyClient: KeyPair;
    readonly controllerManager: KeyPair;
    /** Its common name is the tenant's etcd user. */
    readonly etcdClient: KeyPair;
    /** For people; in `adminGroup`, which is bound to cluster-admin in the tenant and can be unbound. */
    readonly admin: KeyPair;
    readonly syncer: KeyPair;
    readonly manager: KeyPair;
    readonly etcdServer?: KeyPair;
    /** By which the manager reads and writes a tenant's own etcd. */
    readonly etcdManager?: KeyPair;
  };
}

export const adminGroup = 'skerry:cluster-admins';

/**
 * Nothing revokes a member of system:masters, so the syncer's and the manager's certificates live a week.
 * They are renewed after four days and sixteen hours: the operator may be down for more than two days before one ends.
 */
const shortLifeMs = 7 * 24 * 60 * 60_000;

/** `existing` is the decoded data of the tenant's PKI Secret. What is kept and what is renewed: see `ensurePkiSet`. */
export async function ensureTenantPki(
  existing: PkiData | undefined,
  options: TenantPkiOptions,
): Promise<EnsuredPki & { readonly pki: TenantPki }> {
  const own = options.ownDatastore;
  const ensured = await ensurePkiSet(
    existing,
    {
      authorities: {
        'client-ca': { commonName: authorityCommonName(options.id, 'client-ca') },
        'serving-ca': { commonName: authorityCommonName(options.id, 'serving-ca') },
        // The kubelet proxy knows the authorities of all tenants apart by these last two names.
        'front-proxy-ca': { commonName: authorityCommonName(options.id, 'front-proxy-ca') },
        'kubelet-client-ca': { commonName: authorityCommonName(options.id, 'kubelet-client-ca') },
        // Until a tenant is started its template may come to another datastore.
        ...(own && {
          'etcd-ca': {
            commonName: `skerry ${options.id} datastore CA`,
            mayBeAdded: options.wasStarted !== true || own.isBeside === true,
          },
        }),
      },
      serviceAccountKeys: ['service-account'],
      renewal: options.renewal,
      isHeld: options.isHeld === true,
      leafs: {
        apiserver: apiServerLeaf(options.clusterDomain, [
          'localhost',
          '127.0.0.1',
          ...(options.serviceAddress === undefined ? [] : [options.serviceAddress]),
          ...options.hosts,
        ]),
        'kubelet-client': {
          authority: 'kubelet-client-ca',
          commonName: `tenant-${options.id}`,
          organizations: ['skerry:kubelet-clients'],
          usage: ['client'],
        },
        'front-proxy-client': frontProxyLeaf,
        'controller-manager': userLeaf('system:kube-controller-manager'),
        'etcd-client': {
          authority: own === undefined || own.isBeside === true ? options.etcdCa : 'etcd-ca',
          commonName: tenantUser(options.id),
          usage: ['client'],
        },
        ...(own && {
          'etcd-server': {
            ...etcdServerLeaf([...loopbackHosts, ...own.hosts]),
            // A new one is a new pod, and without a volume the data goes with the old one.
            onlyWhenDue: own.isKept === false,
          },
          'etcd-manager': { authority: 'etcd-ca', commonName: '', usage: ['client'] },
        }),
        admin: userLeaf('skerry:admin', adminGroup),
        syncer: { ...userLeaf('skerry:syncer', 'system:masters'), validForMs: shortLifeMs },
        manager: { ...userLeaf('skerry:manager', 'system:masters'), validForMs: shortLifeMs },
      },
    },
    options.now,
  );
  return { ...ensured, pki: tenantPkiOf(ensured.data, own !== undefined) };
}

function tenantPkiOf(data: PkiData, hasOwnDatastore: boolean): TenantPki {
  return {
    clientCa: pairOf(data, 'client-ca'),
    servingCa: pairOf(data, 'serving-ca'),
    frontProxyCa: pairOf(data, 'front-proxy-ca'),
    kubeletClientCa: pairOf(data, 'kubelet-client-ca'),
    serviceAccountKey: serviceAccountKeyOf(data, 'service-account'),
    trust: trustOf(data),
    ...(hasOwnDatastore && { etcdCa: pairOf(data, 'etcd-ca') }),
    leafs: {
      apiserver: pairOf(data, 'apiserver'),
      kubeletClient: pairOf(data, 'kubelet-client'),
      frontProxyClient: pairOf(data, 'front-proxy-client'),
      controllerManager: pairOf(data, 'controller-manager'),
      etcdClient: pairOf(data, 'etcd-client'),
      admin: pairOf(data, 'admin'),
      syncer: pairOf(data, 'syncer'),
      manager: pairOf(data, 'manager'),
      ...(hasOwnDatastore && {
        etcdServer: pairOf(data, 'etcd-server'),
        etcdManager: pairOf(data, 'etcd-manager'),
      }),
    },
  };
}
