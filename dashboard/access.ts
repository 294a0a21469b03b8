import { isRecord, type KubeClient } from '../kube/index.ts';

/** An action, as a SelfSubjectAccessReview asks about it. */
export interface Attributes {
  readonly verb: string;
  readonly group?: string;
  readonly resource: string;
  readonly subresource?: string;
  readonly namespace?: string;
  readonly name?: string;
}

const rememberedMs = 20_000;
const maxRemembered = 20_000;

/** Asks API servers what people may, with their own credentials; answers are remembered for some seconds. */
export class Access {
  readonly #now: () => number;
  readonly #answers = new Map<string, { at: number; answer: Promise<boolean> }>();

  /** `now`: milliseconds. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** `whose`: id of the session. Throws what the API server answers to a question that it refuses, such as 401. */
  may(whose: string, client: KubeClient, attributes: Attributes): Promise<boolean> {
    const key = `${whose} ${JSON.stringify(attributes)}`;
    const now = this.#now();
    const known = this.#answers.get(key);
    if (known !== undefined && now - known.at < rememberedMs) return known.answer;
    this.#answers.delete(key);
    if (this.#answers.size >= maxRemembered) this.#answers.clear();
    const answer = isAllowed(client, attributes);
    this.#answers.set(key, { at: now, answer });
    answer.catch(() => this.#answers.delete(key));
    return answer;
  }
}

/** Asks without a memory. */
export async function isAllowed(
  client: KubeClient,
  attributes: Attributes,
  signal?: AbortSignal,
): Promise<boolean> {
  const path = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews';
  const body = {
    apiVersion: 'authorization.k8s.io/v1',
    kind: 'SelfSubjectAccessReview',
    spec: { resourceAttributes: { group: 'skerry.dev', ...attributes } },
  };
  const review = await client.raw('POST', path, { body, signal });
  return isRecord(review) && isRecord(review['status']) && review['status']['allowed'] === true;
}

/** The user name that the API server has for these credentials. Throws when they are anonymous. */
export async function whoAmI(client: KubeClient, signal?: AbortSignal): Promise<string> {
  const path = '/apis/authentication.k8s.io/v1/selfsubjectreviews';
  const review = await client.raw('POST', path, {
    body: { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' },
    signal,
  });
  const status = isRecord(review) ? review['status'] : undefined;
  const info = isRecord(status) ? status['userInfo'] : undefined;
  const name = isRecord(info) ? info['username'] : undefined;
  if (typeof name !== 'string' || name === '' || name === 'system:anonymous')
    throw new Error('the API server does not know whose token this is');
  return name.slice(0, 256);
}
