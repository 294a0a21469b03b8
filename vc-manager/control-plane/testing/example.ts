import type { ControlPlaneTemplateSpec } from '../../../api/control-plane-template.ts';
import type { KeyPair, TenantPki } from '../../pki/index.ts';
import type { RenderPlanOptions } from '../render-plan.ts';

function pair(name: string): KeyPair {
  return { certPem: `${name} certificate`, keyPem: `${name} key` };
}

/** Stands in for a tenant's PKI where only the places of its parts matter. */
const examplePki: TenantPki = {
  clientCa: pair('client CA'),
  servingCa: pair('serving CA'),
  frontProxyCa: pair('front proxy CA'),
  kubeletClientCa: pair('kubelet client CA'),
  serviceAccountKey: { privatePem: 'service account key', publicPem: 'service account public key' },
  trust: {
    clientCa: 'client CA certificate',
    servingCa: 'serving CA certificate',
    frontProxyCa: 'front proxy CA certificate',
    kubeletClientCa: 'kubelet client CA certificate',
    serviceAccountKeys: 'service account public key',
  },
  leafs: {
    apiserver: pair('apiserver'),
    kubeletClient: pair('kubelet client'),
    frontProxyClient: pair('front proxy client'),
    controllerManager: pair('controller manager'),
    etcdClient: pair('etcd client'),
    admin: pair('admin'),
    syncer: pair('syncer'),
    manager: pair('manager'),
  },
};

/** The same for one with an etcd of its own. */
const ownDatastorePki: TenantPki = {
  ...examplePki,
  etcdCa: pair('own etcd CA'),
  leafs: { ...examplePki.leafs, etcdServer: pair('etcd server') },
};

export function exampleOptions(template: ControlPlaneTemplateSpec): RenderPlanOptions {
  const hasOwnDatastore = template.datastore === 'own';
  return {
    id: 'abc123',
    template,
    version: template.kubernetesVersion,
    serviceCIDR: '10.112.4.0/22',
    clusterDomain: 'example.local',
    ports: { 'kube-apiserver': 21000, etcd: 2379, 'etcd-peer': 2380, 'etcd-metrics': 2381 },
    bindAddress: '0.0.0.0',
    advertiseAddress: '192.0.2.10',
    etcd: { endpoint: 'https://127.0.0.1:20001' },
    pki: hasOwnDatastore ? ownDatastorePki : examplePki,
    encryption: { current: { name: 'key-1', secret: 'encryption key' } },
    etcdCa: 'etcd CA certificate',
    kubeletCa: 'kubelet CA certificate',
  };
}
