import { resolve } from 'node:path';
import { ensurePkiDirectory } from './directory.ts';
import { type PairFiles, pairFiles } from './files.ts';
import { subjectNames } from './names.ts';
import type { EnsuredPki, PkiSpec, Renewal } from './pki-set.ts';

export interface ManagerPkiOptions {
  /** Hosts under which API servers and the manager reach the tenants' datastore. Default: this machine's loopback. */
  readonly etcdHosts?: readonly string[];
  /** Hosts under which tenants' API servers reach the kubelet proxy. Default: this machine's loopback. */
  readonly kubeletProxyHosts?: readonly string[];
  readonly now: Date;
}

/** What belongs to the manager and to no tenant. */
export interface ManagerPki {
  /** Signs the tenants' datastore clients. */
  readonly etcdCa: PairFiles;
  /** For clients and as server: etcd's JSON gateway dials its own server with the server certificate. */
  readonly etcdServer: PairFiles;
  /**
   * Lets the manager in to the datastore's JSON gateway, which refuses a certificate with a common name
   * once authentication is on; who the manager is, the root password says.
   */
  readonly etcdManager: PairFiles;
  readonly etcdRootPassword: string;
  /** Signs the kubelet proxy alone; no CSR signer uses it. */
  readonly kubeletProxyCa: PairFiles;
  readonly kubeletProxy: PairFiles;
  readonly renewals: readonly Renewal[];
  readonly renewAt: Date;
}

/**
 * The common name of etcd's own certificates: the one name that may be a peer. There must never be an etcd user of that
 * name, as the JSON gateway may come to its server under it.
 */
export const etcdServerName = 'etcd-server';
const loopback = ['localhost', '127.0.0.1', '::1'];
/** By this name a tenant's API server knows the kubelet proxy as the server of its metrics API. */
const metricsServiceName = 'skerry-metrics.kube-system.svc';

/** Keeps the manager's PKI as files in `directory`; safe to call at every start and from several processes. */
export async function ensureManagerPki(directory: string, options: ManagerPkiOptions): Promise<ManagerPki> {
  const path = resolve(directory);
  return managerPkiOf(path, await ensurePkiDirectory(path, managerPkiSpec(options), options.now));
}

export function managerPkiSpec(options: ManagerPkiOptions): PkiSpec {
  return {
    authorities: {
      'etcd-ca': { commonName: 'skerry datastore CA' },
      'kubelet-proxy-ca': { commonName: 'skerry kubelet-proxy CA' },
    },
    passwords: ['etcd-root'],
    leafs: {
      'etcd-server': {
        authority: 'etcd-ca',
        commonName: etcdServerName,
        usage: ['server', 'client'],
        ...subjectNames(options.etcdHosts ?? loopback),
      },
      'etcd-manager': {
        authority: 'etcd-ca',
        commonName: '',
        organizations: ['skerry:manager'],
        usage: ['client'],
      },
      'kubelet-proxy': {
        authority: 'kubelet-proxy-ca',
        commonName: 'skerry kubelet-proxy',
        usage: ['server'],
        ...subjectNames([...(options.kubeletProxyHosts ?? loopback), metricsServiceName]),
      },
    },
  };
}

/** `path`: where the data is kept. */
export function managerPkiOf(path: string, { data, renewals, renewAt }: EnsuredPki): ManagerPki {
  return {
    etcdCa: pairFiles(path, data, 'etcd-ca'),
    etcdServer: pairFiles(path, data, 'etcd-server'),
    etcdManager: pairFiles(path, data, 'etcd-manager'),
    etcdRootPassword: data['etcd-root.password'] ?? '',
    kubeletProxyCa: pairFiles(path, data, 'kubelet-proxy-ca'),
    kubeletProxy: pairFiles(path, data, 'kubelet-proxy'),
    renewals,
    renewAt,
  };
}
