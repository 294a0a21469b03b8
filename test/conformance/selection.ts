/** Which specs are run: what ginkgo's `--focus` and `--skip` take. */
export interface Selection {
  readonly focus: string;
  readonly skip: string;
}

/** Specs that need a cluster to themselves, or take longer than everything else together. */
const apart = String.raw`\[Serial\]|\[Disruptive\]|\[Slow\]|\[Flaky\]`;

/** All conformance specs that may run beside each other. */
export const full: Selection = { focus: String.raw`\[Conformance\]`, skip: apart };

/** A few minutes' worth: one or two specs for each thing that a tenant could tell it is not alone by. */
export const representative: Selection = {
  focus: [
    'should run through the lifecycle of Pods and PodStatus',
    'should be able to deny pod and configmap creation',
    'creating/deleting custom resource definition objects works',
    'should delete pods created by rc when not orphaning',
    'should create a ResourceQuota and capture the life of a pod',
    'should mount an API token into pods',
    'ServiceAccountIssuerDiscovery should support OIDC discovery',
    'should provide DNS for services',
    'should provide DNS for pods for Subdomain',
    'should serve a basic endpoint from pods',
    'should be able to change the type from ExternalName to ClusterIP',
    'should function for intra-pod communication: http',
    'should have session affinity work for NodePort service',
    'Netpol NetworkPolicy between server and client should enforce policy based on PodSelector or NamespaceSelector',
    'Netpol NetworkPolicy between server and client should enforce except clause while egress access',
    'should provide pod UID as env vars',
    'should provide DNS for the cluster',
    'should be able to retrieve and filter logs',
    'should support inline execution and attach',
    'should support exec',
    'should proxy through a service and a pod',
    'updates should be reflected in volume',
    'should perform rolling updates and roll backs of template modifications',
    'deployment should support rollover',
    'should run a job to completion when tasks sometimes fail and are not locally restarted',
    'should block an eviction until the PDB is updated to allow it',
    'will start an ephemeral container in an existing pod',
    'should be submitted and removed',
    'should have a working scale subresource',
  ]
    .map(literally)
    .join('|'),
  skip: apart,
};

/** The same, but for specs of these names. */
export function without({ focus, skip }: Selection, specs: readonly { readonly name: string }[]): Selection {
  return { focus, skip: [skip, ...specs.map(({ name }) => literally(name))].join('|') };
}

function literally(name: string): string {
  return name.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);
}
