import { annotationKeys, labelKeys } from '../../../api/labels.ts';
import { apiVersionOf, type KubeObject, type MergePatch, resources } from '../../../kube/index.ts';
import { type SuperMetadataOptions, superMetadata, superMetadataPatch } from '../../mapping/index.ts';
import type { Action, IssuedToken, TokenAsk } from '../action.ts';
import type { SyncContext } from '../context.ts';
import type { Admission, DownKind } from '../kind.ts';
import { podOfTokenSecret, tokenAsks, tokenSecretName } from '../pod-tokens.ts';
import { podKind } from '../pods/index.ts';
import {
  contentsOf,
  type DatedToken,
  dueAsks,
  nextRenewalMs,
  replaceTokens,
  strayKeys,
  withoutTokens,
} from './contents.ts';
import { renewalMs } from './renewal.ts';

interface Pod extends KubeObject {
  spec?: { nodeName?: string; serviceAccountName?: string } & Parameters<typeof tokenAsks>[0];
  status?: { phase?: string };
}

/**
 * The Secret with the tokens of one pod, in the place of those that kubelet would ask for (sync rule 6): issued
 * by the tenant's API server, bound to T, renewed while T runs, and gone with T.
 */
export const tokenKind: DownKind = {
  name: 'tokens',
  direction: 'down',
  resource: resources.pods,
  superResource: resources.secrets,
  onDemand: true,
  selector: { super: labelKeys.token },
  compact: { super: withoutTokens },
  superName: tokenSecretName,
  tenantName: (superName, superObject) =>
    podOfTokenSecret(superName) ?? superObject?.metadata.annotations?.[annotationKeys.pod] ?? superName,
  admit,
  toSuper,
  make,
  down,
};

/**
 * A bound pod gets its token, one that has run keeps its last. Before the binding there is none: the tenant's API
 * server puts the node into the token, and kubelet waits for the Secret as it would for a token.
 */
function admit(pod: Pod, context: SyncContext): Admission {
  if (tokenAsks(pod.spec).length === 0) return { wanted: false };
  if (pod.status?.phase === 'Succeeded' || pod.status?.phase === 'Failed')
    return { wanted: false, keep: true };
  if ((pod.spec?.nodeName ?? '') === '') return { wanted: false };
  // Most pods, and looked at before.
  if (pod.metadata.annotations?.[annotationKeys.superUid] !== undefined) return { wanted: true };
  return { wanted: podKind.admit?.(pod, context).wanted ?? true };
}

/** Without the tokens: they have to be asked for. */
function toSuper(pod: Pod, context: SyncContext): KubeObject {
  const metadata = superMetadata(pod, context, metadataOptions(pod));
  return {
    apiVersion: apiVersionOf(resources.secrets),
    kind: resources.secrets.kind,
    metadata: {
      ...metadata,
      annotations: { ...metadata.annotations, [annotationKeys.pod]: pod.metadata.name ?? '' },
    },
    type: 'Opaque',
  };
}

function make(pod: Pod, context: SyncContext): readonly Action[] {
  const asks = tokenAsks(pod.spec);
  const issue = issueFor(pod, asks, [...asks.keys()], context, (issued) => {
    const { annotations, data } = replaceTokens(asks, { records: [], digests: {} }, issued);
    const secret = toSuper(pod, context);
    const metadata = { ...secret.metadata, annotations: { ...secret.metadata.annotations, ...annotations } };
    return { do: 'createSuper', object: { ...secret, metadata, data } };
  });
  return [issue];
}

function down(pod: Pod, secret: KubeObject, context: SyncContext): readonly Action[] {
  const asks = tokenAsks(pod.spec);
  const contents = contentsOf(secret);
  const due = dueAsks(asks, contents, context.nowMs);
  const stray = strayKeys(asks, contents);
  if (due.length + stray.length > 0 && secret['immutable'] === true) return [{ do: 'deleteSuper' }];
  const metadata = marksPatch(pod, secret, context);
  const emptied = stray.length === 0 ? {} : { data: Object.fromEntries(stray.map((key) => [key, null])) };
  if (due.length > 0) {
    const issue = issueFor(pod, asks, due, context, (issued) => {
      const { annotations, data } = replaceTokens(asks, contents, issued);
      const patch = {
        metadata: { ...metadata, annotations: { ...metadata?.annotations, ...annotations } },
        data: { ...emptied.data, ...data },
      };
      return { do: 'patchSuper', patch };
    });
    return [issue];
  }
  if (metadata !== undefined || stray.length > 0)
    return [{ do: 'patchSuper', patch: { ...(metadata && { metadata }), ...emptied } }];
  return [{ do: 'later', afterMs: nextRenewalMs(contents) - context.nowMs }];
}

/** Asks for the tokens of `indexes`, and does what `written` makes of them. */
function issueFor(
  pod: Pod,
  asks: readonly TokenAsk[],
  indexes: readonly number[],
  { nowMs }: SyncContext,
  written: (issued: ReadonlyMap<number, DatedToken>) => Action,
): Action {
  const dated = (token: IssuedToken): DatedToken => ({
    ...token,
    renewAtMs: renewalMs(token.lifetimeSeconds, pod.metadata.uid ?? '', nowMs),
  });
  return {
    do: 'issueTokens',
    serviceAccount: pod.spec?.serviceAccountName ?? 'default',
    asks: indexes.map((index) => asks[index] as TokenAsk),
    write: (issued) => [
      written(new Map(issued.map((token, place) => [indexes[place] as number, dated(token)]))),
    ],
  };
}

/** Nothing of the pod's own labels and annotations: nobody selects this Secret by them. */
function metadataOptions(pod: Pod): SuperMetadataOptions {
  return {
    name: tokenSecretName(pod.metadata.name ?? ''),
    goesDown: () => false,
    labels: { [labelKeys.token]: 'true' },
  };
}

function marksPatch(
  pod: Pod,
  secret: KubeObject,
  context: SyncContext,
): { annotations?: MergePatch; labels?: MergePatch } | undefined {
  const patch = superMetadataPatch(pod, secret, context, metadataOptions(pod))?.['metadata'] as
    | { annotations?: MergePatch; labels?: MergePatch }
    | undefined;
  const { name = '' } = pod.metadata;
  if (secret.metadata.annotations?.[annotationKeys.pod] === name) return patch;
  return { ...patch, annotations: { ...patch?.annotations, [annotationKeys.pod]: name } };
}
