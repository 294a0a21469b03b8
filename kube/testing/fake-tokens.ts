import type { KubeObject } from '../types.ts';
import type { FakeStorage } from './fake-storage.ts';
import { refusals } from './refusal.ts';

interface TokenRequest extends KubeObject {
  spec?: {
    audiences?: string[];
    expirationSeconds?: number;
    boundObjectRef?: { name?: string; uid?: string };
  };
}

const hour = 3_600;
const shortestSeconds = 600;

/**
 * TokenRequest, with tokens that say in clear text what they are:
 * `token-<n>/<namespace>/<account>/<pod UID>/<node of the pod>/<audience>`.
 */
export class FakeTokens {
  readonly #storage: FakeStorage;
  #issued = 0;

  constructor(storage: FakeStorage) {
    this.#storage = storage;
  }

  issue({ metadata: { namespace, name } }: KubeObject, request: TokenRequest): KubeObject {
    const { audiences = [], expirationSeconds = hour, boundObjectRef } = request.spec ?? {};
    if (expirationSeconds < shortestSeconds)
      throw refusals.invalid('spec.expirationSeconds: may not specify a duration less than 10 minutes');
    let bound = '/';
    if (boundObjectRef?.name !== undefined) {
      const pod = this.#storage.get('/v1/pods', { namespace, name: boundObjectRef.name });
      if (pod === undefined) throw refusals.notFound(`pods "${boundObjectRef.name}"`, 'pods');
      const { uid } = pod.metadata;
      if (uid !== boundObjectRef.uid) throw refusals.conflict(`TokenRequest "${boundObjectRef.name}"`);
      bound = `${uid}/${(pod['spec'] as { nodeName?: string } | undefined)?.nodeName ?? ''}`;
    }
    const audience = audiences.join(',');
    const token = `token-${++this.#issued}/${namespace}/${name}/${bound}/${audience}`;
    const expirationTimestamp = new Date(Date.now() + expirationSeconds * 1_000).toISOString();
    return {
      ...request,
      spec: { ...request.spec, expirationSeconds },
      status: { token, expirationTimestamp },
    };
  }
}
