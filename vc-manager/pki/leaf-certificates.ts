import { type LeafRequest, subjectNames } from './certificates.ts';

/**
 * The common name of etcd's own certificates: the one name that may be a peer. There must never be an etcd user of that
 * name, as the JSON gateway may come to its server under it.
 */
export const etcdServerName = 'etcd-server';
const frontProxyClientName = 'front-proxy-client';
export const loopbackHosts = ['localhost', '127.0.0.1', '::1'];

/** A leaf request with the name of the authority, one of the same set, that signs it. */
type SetLeaf = LeafRequest & { readonly authority: string };

/** A user of an API server: common name and groups. */
export function userLeaf(commonName: string, ...organizations: string[]): SetLeaf {
  return { authority: 'client-ca', commonName, organizations, usage: ['client'] };
}

/** An API server, under the names of its Service `kubernetes` and the given hosts. */
export function apiServerLeaf(clusterDomain: string, hosts: readonly string[]): SetLeaf {
  const names = subjectNames([
    'kubernetes',
    'kubernetes.default',
    'kubernetes.default.svc',
    `kubernetes.default.svc.${clusterDomain}`,
    ...hosts,
  ]);
  return { authority: 'serving-ca', commonName: 'kube-apiserver', usage: ['server'], ...names };
}

/** What an API server shows to servers behind its aggregation layer. */
export const frontProxyLeaf: SetLeaf = {
  authority: 'front-proxy-ca',
  commonName: frontProxyClientName,
  usage: ['client'],
};

/** An etcd member, also as the client by which its JSON gateway dials it. */
export function etcdServerLeaf(hosts: readonly string[]): SetLeaf {
  return {
    authority: 'etcd-ca',
    commonName: etcdServerName,
    usage: ['server', 'client'],
    ...subjectNames(hosts),
  };
}
