import { renderKubeconfig } from '../../kube/index.ts';
import { localAddress } from './local-address.ts';
import type { RenderPlanOptions } from './render-plan.ts';

/** Everything that `${file:NAME}` in a template may refer to, made when it is asked for. */
export function credentialFiles(options: RenderPlanOptions): Record<string, () => string> {
  const { pki } = options;
  return {
    'client-ca.crt': () => pki.clientCa.certPem,
    'serving-ca.crt': () => pki.servingCa.certPem,
    'front-proxy-ca.crt': () => pki.frontProxyCa.certPem,
    'etcd-ca.crt': () => pki.etcdCa?.certPem ?? options.etcdCa,
    'kubelet-ca.crt': () => options.kubeletCa,
    'apiserver.crt': () => pki.leafs.apiserver.certPem,
    'apiserver.key': () => pki.leafs.apiserver.keyPem,
    'kubelet-client.crt': () => pki.leafs.kubeletClient.certPem,
    'kubelet-client.key': () => pki.leafs.kubeletClient.keyPem,
    'front-proxy-client.crt': () => pki.leafs.frontProxyClient.certPem,
    'front-proxy-client.key': () => pki.leafs.frontProxyClient.keyPem,
    'etcd-client.crt': () => pki.leafs.etcdClient.certPem,
    'etcd-client.key': () => pki.leafs.etcdClient.keyPem,
    ...ofOwnDatastore(options),
    'service-account.pub': () => pki.serviceAccountKey.publicPem,
    'service-account.key': () => pki.serviceAccountKey.privatePem,
    'controller-manager.kubeconfig': () => controllerManagerKubeconfig(options),
  };
}

/** Only where there is one. */
function ofOwnDatastore({ pki }: RenderPlanOptions): Record<string, () => string> {
  const { etcdServer } = pki.leafs;
  if (etcdServer === undefined) return {};
  return { 'etcd-server.crt': () => etcdServer.certPem, 'etcd-server.key': () => etcdServer.keyPem };
}

function controllerManagerKubeconfig(options: RenderPlanOptions): string {
  const { host, port } = options.apiServer ?? {
    host: localAddress(options.bindAddress),
    port: options.ports['kube-apiserver'],
  };
  const { certPem, keyPem } = options.pki.leafs.controllerManager;
  return renderKubeconfig({
    clusterName: options.id,
    server: `https://${host.includes(':') ? `[${host}]` : host}:${port}`,
    ca: options.pki.servingCa.certPem,
    user: 'system:kube-controller-manager',
    cert: certPem,
    key: keyPem,
  });
}
