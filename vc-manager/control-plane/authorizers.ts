import { X509Certificate } from 'node:crypto';

/** The file that `authorizers` refers to. Nothing is ever sent to the address in it. */
export const noWebhookFile = 'no-webhook.kubeconfig';

/** kube-apiserver wants a kubeconfig for each authorizer that is a webhook. */
export const noWebhookKubeconfig = JSON.stringify({
  apiVersion: 'v1',
  kind: 'Config',
  clusters: [{ name: 'none', cluster: { server: 'https://127.0.0.1:1' } }],
  contexts: [{ name: 'none', context: { cluster: 'none', user: '' } }],
  'current-context': 'none',
});

const fullMessage =
  'The datastore quota of this control plane is exceeded: only deleting is possible. Delete objects, or ask for a larger quota.';

/** Requests that store nothing although their verb is `create`. */
const storesNothing = [
  "request.resourceAttributes.group in ['authentication.k8s.io', 'authorization.k8s.io']",
  "request.resourceAttributes.subresource in ['exec', 'attach', 'portforward', 'proxy', 'eviction']",
];

/**
 * Controllers without which a deletion does not end: they take finalizers off, and write that a namespace is going. What
 * they create is refused like that of any user.
 */
const finishers = [
  'namespace-controller',
  'generic-garbage-collector',
  'job-controller',
  'pvc-protection-controller',
  'pv-protection-controller',
];

/**
 * Tokens of these controllers could have been issued to others before: one that goes on growing is sealed, and then they
 * are refused as well.
 */
const unlessFinishers = `!(request.resourceAttributes.verb in ['update', 'patch'] && request.user in [${finishers
  .map((name) => `'system:serviceaccount:kube-system:${name}'`)
  .join(', ')}])`;

/** What an API server refuses: nothing, what adds to the datastore but for what finishes deletions, or that as well. */
export type WriteStop = 'none' | 'stopped' | 'sealed';

const credentialId = 'authentication.kubernetes.io/credential-id';

/**
 * The program of the controllers asks for their tokens. Known by its certificate and not by its user: the tenant can have
 * certificates signed for any name.
 */
function unlessCredential(certPem: string): string {
  const fingerprint = new X509Certificate(certPem).fingerprint256.replaceAll(':', '').toLowerCase();
  return `!(has(request.extra) && '${credentialId}' in request.extra && 'X509SHA256=${fingerprint}' in request.extra['${credentialId}'])`;
}

/** All of them have to hold; the last never answers, and so has the request refused with its text. */
const stopConditions = (stop: WriteStop, controllerManager: string): string[] => [
  'has(request.resourceAttributes)',
  // A user who may impersonate could become a member of system:masters, which no authorizer is asked about.
  "request.resourceAttributes.verb in ['create', 'update', 'patch'] || request.resourceAttributes.verb.startsWith('impersonate')",
  `!(${storesNothing.join(' || ')})`,
  unlessCredential(controllerManager),
  ...(stop === 'sealed' ? [] : [unlessFinishers]),
  `dyn({})['${fullMessage}'] == true`,
];

/** The port that kubelets are known by; where another one serves, it is the one that is asked without a port. */
const kubeletPort = '10250';

const portMessage = `A node is asked at its kubelet port alone: ask for nodes/NAME/proxy or nodes/NAME:${kubeletPort}/proxy.`;

/**
 * With a port in its name, a request to a node would have the API server dial any port of the host that answers as the
 * node's kubelet, in plain text.
 */
const otherPortConditions = [
  'has(request.resourceAttributes)',
  "request.resourceAttributes.resource == 'nodes' && request.resourceAttributes.group == '' && request.resourceAttributes.subresource == 'proxy'",
  `!request.resourceAttributes.name.matches('^([^:]*:)?[^:]+:(${kubeletPort})?$|^[^:]*$')`,
  `dyn({})['${portMessage}'] == true`,
];

/**
 * `authorizers` of an AuthorizationConfiguration, as JSON. Before RBAC stand webhooks that are never called: their
 * conditions fail in the API server itself, which for `failurePolicy: Deny` refuses the request. One refuses other ports
 * of nodes; while writes are stopped, another one what adds to the datastore: reads and deletions go on to RBAC, and
 * `controllerManager`, the certificate of the controllers' program as PEM, may write. Members of system:masters (syncer
 * and manager) are not asked at all.
 */
export function authorizers(
  stop: WriteStop,
  { kubeConfigFile, controllerManager }: { kubeConfigFile: string; controllerManager: string },
): string {
  const webhook = (name: string, conditions: readonly string[]): object => ({
    type: 'Webhook',
    name,
    webhook: {
      timeout: '1s',
      subjectAccessReviewVersion: 'v1',
      matchConditionSubjectAccessReviewVersion: 'v1',
      authorizedTTL: '1s',
      unauthorizedTTL: '1s',
      failurePolicy: 'Deny',
      connectionInfo: { type: 'KubeConfigFile', kubeConfigFile },
      matchConditions: conditions.map((expression) => ({ expression })),
    },
  });
  return JSON.stringify([
    ...(stop === 'none' ? [] : [webhook('datastore-quota', stopConditions(stop, controllerManager))]),
    webhook('node-ports', otherPortConditions),
    { type: 'RBAC', name: 'rbac' },
  ]);
}
