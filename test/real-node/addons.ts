import {
  isAlreadyExists,
  type KubeClient,
  type KubeObject,
  type Resource,
  resource,
  resources,
} from '../../kube/index.ts';
import { versionOf } from './build/programs.ts';

const dnsNamespace = 'kube-system';
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
function coreDns(clusterIP: string): Addon {
  const ref = { name, namespace: dnsNamespace };
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
        metadata: { name: 'kube-dns', namespace: dnsNamespace, labels },
        spec: { clusterIP, selector: labels, ports },
      },
    ],
  ];
}

const storageNamespace = 'local-path-storage';
/** The provisioner insists on these two names. */
const account = 'local-path-provisioner-service-account';
const settings = 'local-path-config';
export const storageClassName = 'local-path';

const rbac = (plural: string, kind: string, namespaced: boolean) =>
  resource('rbac.authorization.k8s.io', 'v1', plural, kind, namespaced);
const subjects = [{ kind: 'ServiceAccount', name: account, namespace: storageNamespace }];
const apiGroup = 'rbac.authorization.k8s.io';

/** Volumes that are directories of the node that first used them. The class is published to tenants. */
function localPathProvisioner(): Addon {
  const name = 'local-path';
  const ref = { name, namespace: storageNamespace };
  return [
    // Its helper pods have directories of the node.
    [
      resources.namespaces,
      {
        metadata: {
          name: storageNamespace,
          labels: { 'pod-security.kubernetes.io/enforce': 'privileged' },
        },
      },
    ],
    [resources.serviceAccounts, { metadata: { name: account, namespace: storageNamespace } }],
    [
      rbac('clusterroles', 'ClusterRole', false),
      {
        metadata: { name },
        rules: [
          {
            apiGroups: [''],
            resources: ['nodes', 'persistentvolumeclaims'],
            verbs: ['get', 'list', 'watch'],
          },
          { apiGroups: [''], resources: ['configmaps', 'pods', 'pods/log'], verbs: ['get', 'list', 'watch'] },
          {
            apiGroups: [''],
            resources: ['persistentvolumes'],
            verbs: ['get', 'list', 'watch', 'create', 'patch', 'update', 'delete'],
          },
          { apiGroups: [''], resources: ['events'], verbs: ['create', 'patch'] },
          { apiGroups: ['storage.k8s.io'], resources: ['storageclasses'], verbs: ['get', 'list', 'watch'] },
        ],
      },
    ],
    [
      rbac('clusterrolebindings', 'ClusterRoleBinding', false),
      { metadata: { name }, roleRef: { apiGroup, kind: 'ClusterRole', name }, subjects },
    ],
    [
      rbac('roles', 'Role', true),
      {
        metadata: ref,
        rules: [
          {
            apiGroups: [''],
            resources: ['pods'],
            verbs: ['get', 'list', 'watch', 'create', 'patch', 'update', 'delete'],
          },
        ],
      },
    ],
    [
      rbac('rolebindings', 'RoleBinding', true),
      { metadata: ref, roleRef: { apiGroup, kind: 'Role', name }, subjects },
    ],
    [
      resources.configMaps,
      { metadata: { name: settings, namespace: storageNamespace }, data: configuration },
    ],
    [resources.deployments, { metadata: ref, spec: deploymentSpec(name) }],
    [
      resources.storageClasses,
      {
        metadata: {
          name: storageClassName,
          labels: { 'skerry.dev/public': 'true' },
          annotations: { 'storageclass.kubernetes.io/is-default-class': 'true' },
        },
        provisioner: 'rancher.io/local-path',
        volumeBindingMode: 'WaitForFirstConsumer',
        reclaimPolicy: 'Delete',
      },
    ],
  ];
}

const configuration = {
  'config.json': JSON.stringify({
    nodePathMap: [{ node: 'DEFAULT_PATH_FOR_NON_LISTED_NODES', paths: ['/var/lib/local-path-provisioner'] }],
  }),
  setup: '#!/bin/sh\nset -eu\nmkdir -m 0777 -p "$VOL_DIR"\n',
  teardown: '#!/bin/sh\nset -eu\nrm -rf "$VOL_DIR"\n',
  'helperPod.yaml': JSON.stringify({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'helper-pod' },
    spec: {
      priorityClassName: 'system-node-critical',
      containers: [
        { name: 'helper-pod', image: 'docker.io/library/busybox:1.36', imagePullPolicy: 'IfNotPresent' },
      ],
    },
  }),
};

function deploymentSpec(name: string): object {
  return {
    replicas: 1,
    selector: { matchLabels: { app: name } },
    template: {
      metadata: { labels: { app: name } },
      spec: {
        serviceAccountName: account,
        containers: [
          {
            name: 'provisioner',
            image: `docker.io/rancher/local-path-provisioner:v${versionOf('local-path-provisioner')}`,
            imagePullPolicy: 'IfNotPresent',
            command: ['/local-path-provisioner', 'start', '--config', '/etc/config/config.json'],
            env: [
              { name: 'POD_NAMESPACE', valueFrom: { fieldRef: { fieldPath: 'metadata.namespace' } } },
              { name: 'CONFIG_MOUNT_PATH', value: '/etc/config/' },
            ],
            volumeMounts: [{ name: 'config', mountPath: '/etc/config/' }],
          },
        ],
        volumes: [{ name: 'config', configMap: { name: settings } }],
      },
    },
  };
}

type Addon = readonly (readonly [Resource, KubeObject])[];

interface AddonOptions {
  dnsAddress: string;
  withDns: boolean;
}

/** What a super cluster of real nodes has beside its own components: storage, published to tenants, and DNS. */
export async function createAddons(client: KubeClient, { dnsAddress, withDns }: AddonOptions): Promise<void> {
  const objects: Addon = [...localPathProvisioner(), ...(withDns ? coreDns(dnsAddress) : [])];
  for (const [resource, object] of objects) {
    await client.create(resource, object).catch((error: unknown) => {
      if (!isAlreadyExists(error)) throw error;
    });
  }
}
