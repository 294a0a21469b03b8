import { resource, resources } from '../../../kube/index.ts';
import { versionOf } from '../build/programs.ts';
import type { Addon } from './index.ts';

const namespace = 'kube-system';
const name = 'coredns';
const labels = { 'k8s-app': 'kube-dns' };
const group = 'rbac.authorization.k8s.io';

const corefile = `.:53 {
    errors
    health
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
      pods insecure
      fallthrough in-addr.arpa ip6.arpa
      ttl 5
    }
    forward . /etc/resolv.conf
    cache 5
    loadbalance
}
`;

/** DNS of the super cluster itself, at a fixed address. */
export function coreDns(clusterIP: string): Addon {
  const ref = { name, namespace };
  const ports = [
    { name: 'dns', port: 53, protocol: 'UDP' },
    { name: 'dns-tcp', port: 53, protocol: 'TCP' },
  ];
  return [
    [resources.serviceAccounts, { metadata: ref }],
    [
      resource(group, 'v1', 'clusterroles', 'ClusterRole', false),
      {
        metadata: { name },
        rules: [
          { apiGroups: [''], resources: ['services', 'pods', 'namespaces'], verbs: ['list', 'watch'] },
          { apiGroups: ['discovery.k8s.io'], resources: ['endpointslices'], verbs: ['list', 'watch'] },
        ],
      },
    ],
    [
      resource(group, 'v1', 'clusterrolebindings', 'ClusterRoleBinding', false),
      {
        metadata: { name },
        roleRef: { apiGroup: group, kind: 'ClusterRole', name },
        subjects: [{ kind: 'ServiceAccount', ...ref }],
      },
    ],
    [resources.configMaps, { metadata: ref, data: { Corefile: corefile } }],
    [
      resources.deployments,
      {
        metadata: { ...ref, labels },
        spec: {
          replicas: 1,
          selector: { matchLabels: labels },
          template: {
            metadata: { labels },
            spec: {
              serviceAccountName: name,
              dnsPolicy: 'Default',
              containers: [
                {
                  name,
                  image: `registry.k8s.io/coredns/coredns:v${versionOf('coredns')}`,
                  imagePullPolicy: 'IfNotPresent',
                  args: ['-conf', '/etc/coredns/Corefile'],
                  volumeMounts: [{ name: 'config', mountPath: '/etc/coredns' }],
                  ports: ports.map((port) => ({ ...port, containerPort: port.port, port: undefined })),
                  readinessProbe: { httpGet: { path: '/ready', port: 8181 }, periodSeconds: 1 },
                },
              ],
              volumes: [{ name: 'config', configMap: { name } }],
            },
          },
        },
      },
    ],
    [
      resources.services,
      {
        metadata: { name: 'kube-dns', namespace, labels },
        spec: { clusterIP, selector: labels, ports },
      },
    ],
  ];
}
