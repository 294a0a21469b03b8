import type { KubeObject } from '../../../../kube/index.ts';
import { compareLabelsAndAnnotations } from '../labels-and-annotations.ts';
import {
  type Copy,
  type KindChecks,
  type SeededDifference,
  setAnnotation,
  setField,
} from '../seeded-differences.ts';
import { annotation, at, label, listAt, nameOf, unequal, type View } from '../view.ts';

/** What a token says of itself. */
interface TokenClaims {
  readonly aud: readonly string[];
  readonly exp: number;
  readonly iat: number;
  readonly 'kubernetes.io': {
    readonly namespace: string;
    readonly node?: { readonly name: string };
    readonly pod?: { readonly name: string; readonly uid: string };
    readonly serviceaccount: { readonly name: string; readonly uid: string };
    /** After this, use of the token is noted. */
    readonly warnafter?: number;
  };
}

/** Read without a look at the signature. */
export function claimsOf(token: string): TokenClaims | undefined {
  try {
    return JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as TokenClaims;
  } catch {
    return undefined;
  }
}

/** One Secret of Skerry's own, with the tokens of one pod. */
export function isTokenSecret(secret: KubeObject): boolean {
  return label(secret, 'skerry.dev/token') !== undefined;
}

/** Where a volume of a pod takes a file from. */
interface TokenFile {
  readonly volume: string;
  readonly path: string;
  readonly audience: string;
  readonly expirationSeconds: number;
}

/** The tokens that a pod asks for. */
export function tokenFilesOf(pod: KubeObject): TokenFile[] {
  return listAt(pod, 'spec', 'volumes').flatMap((volume) =>
    listAt(volume, 'projected', 'sources').flatMap((source) => {
      const token = source['serviceAccountToken'];
      if (token === undefined) return [];
      return [
        {
          volume: String(volume['name']),
          path: at<string>(token, 'path') ?? '',
          audience: at<string>(token, 'audience') ?? '',
          expirationSeconds: at<number>(token, 'expirationSeconds') ?? 0,
        },
      ];
    }),
  );
}

/** The Secret, by name, and the key that the pod of the super cluster reads a file from. */
export function sourceOf(superPod: KubeObject, file: TokenFile): { name: string; key: string } | undefined {
  const volume = listAt(superPod, 'spec', 'volumes').find(({ name }) => name === file.volume);
  for (const source of listAt(volume, 'projected', 'sources')) {
    const item = listAt(source, 'secret', 'items').find(({ path }) => path === file.path);
    if (item !== undefined && at(source, 'secret', 'optional') !== true)
      return { name: at<string>(source, 'secret', 'name') ?? '', key: String(item['key']) };
  }
  return undefined;
}

/**
 * Sync rule `pod-tokens`: what the volumes of a pod on a node promise is there, issued by the tenant for this very pod on this
 * very node; and nothing else is.
 */
function compareTokens(view: View): string[] {
  const found: string[] = [];
  for (const own of view.own.pods) {
    const { namespace = '', name = '', deletionTimestamp } = own.metadata;
    const superPod = view.superObject('pods', namespace, name);
    if (superPod === undefined || deletionTimestamp !== undefined) continue;
    if (annotation(superPod, 'skerry.dev/uid') !== own.metadata.uid) continue;
    for (const file of tokenFilesOf(own))
      found.push(
        ...compareFile(view, own, superPod, file).map((text) => `token of Pod ${nameOf(own)}: ${text}`),
      );
  }
  return [...found, ...compareSecrets(view)];
}

function compareFile(view: View, own: KubeObject, superPod: KubeObject, file: TokenFile): string[] {
  const source = sourceOf(superPod, file);
  if (source === undefined) return [`${file.path} has no Secret as its source`];
  const secret = view.superObject('secrets', own.metadata.namespace ?? '', source.name);
  const value = at<string>(secret, 'data', source.key);
  // It may have had its node, and its end, before there was one.
  if (secret === undefined && (!isOnNode(own) || isFinished(own))) return [];
  if (secret === undefined || value === undefined)
    return [`${source.key} of Secret ${source.name} is missing`];
  const claims = claimsOf(Buffer.from(value, 'base64').toString());
  if (claims === undefined) return ['it is no token'];
  const { namespace, node, pod, serviceaccount, warnafter } = claims['kubernetes.io'];
  const account = at<string>(own, 'spec', 'serviceAccountName') ?? '';
  const lifeSeconds = (warnafter ?? claims.exp) - claims.iat;
  return [
    ...(isTokenSecret(secret) ? [] : [`Secret ${source.name} is not marked as what it is`]),
    ...unequal(own.metadata.namespace, namespace, 'namespace'),
    ...unequal({ name: own.metadata.name, uid: own.metadata.uid }, pod, 'pod'),
    ...unequal(at(own, 'spec', 'nodeName'), node?.name, 'node'),
    ...unequal(account, serviceaccount.name, 'service account'),
    ...unequal(file.audience === '' ? claims.aud : [file.audience], claims.aud, 'audience'),
    ...unequal(file.expirationSeconds, lifeSeconds, 'life in seconds'),
    ...(claims.exp * 1_000 > Date.now() ? [] : ['it has expired']),
  ];
}

function isOnNode(own: KubeObject): boolean {
  return (at<string>(own, 'spec', 'nodeName') ?? '') !== '';
}

function isFinished(own: KubeObject): boolean {
  return ['Succeeded', 'Failed'].includes(at<string>(own, 'status', 'phase') ?? '');
}

/** Each belongs to one pod of the tenant that asks for a token and has a node, and carries our marks. */
function compareSecrets(view: View): string[] {
  const found: string[] = [];
  const pods = new Map(view.own.pods.map((pod) => [pod.metadata.uid, pod]));
  const seen = new Map<string, KubeObject>();
  for (const secret of view.marked('secrets').filter(isTokenSecret)) {
    const uid = annotation(secret, 'skerry.dev/uid') ?? '';
    const pod = pods.get(uid);
    const say = (text: string): void => void found.push(`Secret ${nameOf(secret)} with tokens: ${text}`);
    if (seen.has(uid)) say('its pod has another one, too');
    seen.set(uid, secret);
    if (pod === undefined) {
      say('has no pod in the tenant');
      continue;
    }
    if (tokenFilesOf(pod).length === 0) say('its pod asks for no token');
    if (!isOnNode(pod)) say('its pod has no node');
    for (const difference of compareLabelsAndAnnotations(view, pod, secret)) say(difference);
  }
  return found;
}

function tokenSecret(copy: Copy): KubeObject {
  const { uid } = copy.tenantObject('pods', 'web').metadata;
  const secret = copy.superSide.secrets.find(
    ({ metadata }) => metadata.annotations?.['skerry.dev/uid'] === uid,
  );
  if (secret === undefined) throw new Error('no tokens of web in the super cluster');
  return secret;
}

function putClaims(copy: Copy, change: (claims: Record<string, unknown>) => void): void {
  const secret = tokenSecret(copy);
  const data = secret['data'] as Record<string, string>;
  for (const [key, value] of Object.entries(data)) {
    const parts = Buffer.from(value, 'base64').toString().split('.');
    const claims = JSON.parse(Buffer.from(parts[1] ?? '', 'base64url').toString()) as Record<string, unknown>;
    change(claims);
    parts[1] = Buffer.from(JSON.stringify(claims)).toString('base64url');
    data[key] = Buffer.from(parts.join('.')).toString('base64');
  }
}

const inTokens: SeededDifference[] = [
  {
    what: 'the tokens of a pod are missing',
    plant: (c) => c.remove('superSide', 'secrets', tokenSecret(c)),
    message: /token of Pod shop\/web-\S+: token-0 of Secret \S+ is missing/,
  },
  {
    what: 'a token is no token',
    plant: (c) => setField(tokenSecret(c), ['data', 'token-0'], 'bm9uc2Vuc2U='),
    message: /token of Pod shop\/web-\S+: it is no token/,
  },
  {
    what: 'a token is bound to another pod',
    plant: (c) =>
      putClaims(c, (claims) =>
        setField({ metadata: {}, ...claims }, ['kubernetes.io', 'pod', 'uid'], 'other'),
      ),
    message: /token of Pod shop\/web-\S+: pod/,
  },
  {
    what: 'a token names another node',
    plant: (c) =>
      putClaims(c, (claims) =>
        setField({ metadata: {}, ...claims }, ['kubernetes.io', 'node', 'name'], 'other'),
      ),
    message: /token of Pod shop\/web-\S+: node/,
  },
  {
    what: 'a pod has tokens before it has a node',
    plant: (c) => setField(c.tenantObject('pods', 'web'), ['spec', 'nodeName'], ''),
    message: /Secret \S+ with tokens: its pod has no node/,
  },
  {
    what: 'a token has expired',
    plant: (c) => putClaims(c, (claims) => Object.assign(claims, { exp: 1 })),
    message: /it has expired/,
  },
  {
    what: 'tokens have outlived their pod',
    plant: (c) => setAnnotation(tokenSecret(c), 'skerry.dev/uid', 'earlier'),
    message: /Secret \S+ with tokens: has no pod in the tenant/,
  },
  {
    what: 'a pod has two Secrets with tokens',
    plant: (c) => {
      const twin = structuredClone(tokenSecret(c));
      twin.metadata.name = 'twin';
      c.superSide.secrets.push(twin);
    },
    message: /its pod has another one, too/,
  },
];

export const tokenChecks: KindChecks = {
  compare: [compareTokens],
  seeded: [...inTokens],
};
