import { X509Certificate } from 'node:crypto';

/** The file that `authorizers` refers to while writes are stopped. Nothing is ever sent to the address in it. */
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
 * they create is refused like everybody's.
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
  // Whoever may impersonate could become one of system:masters, whom no authorizer is asked about.
  "request.resourceAttributes.verb in ['create', 'update', 'patch'] || request.resourceAttributes.verb.startsWith('impersonate')",
  `!(${storesNothing.join(' || ')})`,
  unlessCredential(controllerManager),
  ...(stop === 'sealed' ? [] : [unlessFinishers]),
  `dyn({})['${fullMessage}'] == true`,
];

/**
 * `authorizers` of an AuthorizationConfiguration, as JSON. While writes are stopped, a webhook that is never called comes
 * first: its conditions fail in the API server itself, which for `failurePolicy: Deny` refuses the request. Reads and
 * deletions go on to RBAC; `controllerManager`, the certificate of the controllers' program as PEM, may write; and members of system:masters (syncer and manager) are not asked at all.
 */
export function authorizers(
  stop: WriteStop,
  { kubeConfigFile, controllerManager }: { kubeConfigFile: string; controllerManager: string },
): string {
  const rbac = { type: 'RBAC', name: 'rbac' };
  if (stop === 'none') return JSON.stringify([rbac]);
  const webhook = {
    timeout: '1s',
    subjectAccessReviewVersion: 'v1',
    matchConditionSubjectAccessReviewVersion: 'v1',
    authorizedTTL: '1s',
    unauthorizedTTL: '1s',
    failurePolicy: 'Deny',
    connectionInfo: { type: 'KubeConfigFile', kubeConfigFile },
    matchConditions: stopConditions(stop, controllerManager).map((expression) => ({ expression })),
  };
  return JSON.stringify([{ type: 'Webhook', name: 'datastore-quota', webhook }, rbac]);
}
