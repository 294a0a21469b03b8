import { resource, resources } from '../../../kube/index.ts';
import { versionOf } from '../build/programs.ts';
import type { Addon } from './index.ts';

const namespace = 'local-path-storage';
/** The provisioner insists on these two names. */
const account = 'local-path-provisioner-service-account';
const settings = 'local-path-config';
export const storageClassName = 'local-path';

const rbac = (plural: string, kind: string, namespaced: boolean) =>
  resource('rbac.authorization.k8s.io', 'v1', plural, kind, namespaced);
const subjects = [{ kind: 'ServiceAccount', name: account, namespace }];
const apiGroup = 'rbac.authorization.k8s.io';

/** Volumes that are directories of the node that first used them. The class is published to tenants. */
export function localPathProvisioner(): Addon {
  const name = 'local-path';
  const ref = { name, namespace };
  return [
    [resources.namespaces, { metadata: { name: namespace } }],
    [resources.serviceAccounts, { metadata: { name: account, namespace } }],
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
    [resources.configMaps, { metadata: { name: settings, namespace }, data: configuration }],
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
