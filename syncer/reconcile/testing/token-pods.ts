import { annotationKeys } from '../../../api/labels.ts';
import type { KubeObject } from '../../../kube/index.ts';

export type TokenSource = { path: string; audience?: string; expirationSeconds?: number };

/** The pod `web` of the namespace `shop`; as admission makes it, unless it asks for other tokens. */
export function podWithTokens(
  sources: readonly TokenSource[] = [{ path: 'token', expirationSeconds: 3607 }],
): KubeObject {
  const projected = { sources: sources.map((serviceAccountToken) => ({ serviceAccountToken })) };
  return {
    metadata: { name: 'web', namespace: 'shop' },
    spec: {
      serviceAccountName: 'robot',
      containers: [{ name: 'main', image: 'busybox' }],
      volumes: [{ name: 'v', projected }],
    },
    status: { phase: 'Pending' },
  };
}

/** The same, after the engine has bound it to the node `n1`. */
export function bound(pod: KubeObject): KubeObject {
  return {
    ...pod,
    metadata: { ...pod.metadata, annotations: { [annotationKeys.superUid]: 'uid-of-s' } },
    spec: { ...(pod['spec'] as object), nodeName: 'n1' },
  };
}

/** The tokens of a Secret, by key. */
export function tokensIn(secret: KubeObject | undefined): Record<string, string> {
  const data = (secret?.['data'] ?? {}) as Record<string, string>;
  return Object.fromEntries(
    Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]),
  );
}
