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
    'etcd-ca.crt': () => options.etcdCa,
    'kubelet-ca.crt': () => options.kubeletCa,
    'apiserver.crt': () => pki.leafs.apiserver.certPem,
    'apiserver.key': () => pki.leafs.apiserver.keyPem,
    'kubelet-client.crt': () => pki.leafs.kubeletClient.certPem,
    'kubelet-client.key': () => pki.leafs.kubeletClient.keyPem,
    'front-proxy-client.crt': () => pki.leafs.frontProxyClient.certPem,
    'front-proxy-client.key': () => pki.leafs.frontProxyClient.keyPem,
    'etcd-client.crt': () => pki.leafs.etcdClient.certPem,
    'etcd-client.key': () => pki.leafs.etcdClient.keyPem,
    'service-account.pub': () => pki.serviceAccountKey.publicPem,
    'service-account.key': () => pki.serviceAccountKey.privatePem,
    'controller-manager.kubeconfig': () => controllerManagerKubeconfig(options),
  };
}

function controllerManagerKubeconfig(options: RenderPlanOptions): string {
  const host = localAddress(options.bindAddress);
  const { certPem, keyPem } = options.pki.leafs.controllerManager;
  return renderKubeconfig({
    clusterName: options.id,
    server: `https://${host.includes(':') ? `[${host}]` : host}:${options.ports['kube-apiserver']}`,
    ca: options.pki.servingCa.certPem,
    user: 'system:kube-controller-manager',
    cert: certPem,
    key: keyPem,
  });
}
