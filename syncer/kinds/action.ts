import type { KubeObject, MergePatch } from '../../kube/index.ts';

/** Names one object in the tenant's coordinates; `kind` is the kind's `name`. */
export interface KeyRef {
  readonly kind: string;
  readonly namespace?: string | undefined;
  readonly name: string;
}

/** Something that the tenant should read with `kubectl describe`. Text is free of super cluster names. */
export interface Notice {
  readonly type: 'Normal' | 'Warning';
  /** CamelCase, machine readable. */
  readonly reason: string;
  readonly message: string;
}

/**
 * One step towards agreement. The engine carries steps out in order and stops at the first that fails.
 * Deletes carry the UID of the object that the decision was made on, patches its UID and resourceVersion.
 */
export type Action =
  | { readonly do: 'createSuper'; readonly object: KubeObject }
  | {
      readonly do: 'patchSuper';
      readonly patch: MergePatch;
      readonly subresource?: string;
      /** A refusal is told on T and tried again after a time; what comes up from S does not wait for it. */
      readonly mayBeRefused?: true;
    }
  | { readonly do: 'deleteSuper'; readonly gracePeriodSeconds?: number }
  | { readonly do: 'createTenant'; readonly object: KubeObject }
  | { readonly do: 'patchTenant'; readonly patch: MergePatch; readonly subresource?: string }
  | { readonly do: 'deleteTenant'; readonly gracePeriodSeconds?: number }
  /** Binds the tenant's pod to a node; labels (from Kubernetes 1.35 on) and annotations of the Binding land on the pod. */
  | {
      readonly do: 'bindTenant';
      readonly node: string;
      readonly annotations: Record<string, string>;
      readonly labels?: Record<string, string>;
    }
  /** An event on the tenant's object. */
  | { readonly do: 'notice'; readonly notice: Notice }
  /**
   * Asks the tenant's API server for tokens of a service account, bound to T, and goes on with what `write` makes
   * of them: one for each of `asks`, in their order.
   */
  | {
      readonly do: 'issueTokens';
      readonly serviceAccount: string;
      readonly asks: readonly TokenAsk[];
      readonly write: (issued: readonly IssuedToken[]) => readonly Action[];
    }
  /** Stops here until these are in agreement themselves; the engine queues them and comes back. */
  | { readonly do: 'require'; readonly keys: readonly KeyRef[] }
  /** Comes back after a time, e.g. for something that goes two minutes after its last use. */
  | { readonly do: 'later'; readonly afterMs: number };

export interface TokenAsk {
  /** Empty: whom the tenant's API server itself issues tokens for. */
  readonly audience: string;
  readonly expirationSeconds: number;
}

export interface IssuedToken {
  /** A secret: belongs in the object that is written, and nowhere else. */
  readonly token: string;
  /** How long the server says that it lives. It may grant less than was asked for. */
  readonly lifetimeSeconds: number;
}

/**
 * What the super cluster answered to a refused write (400, 403, 409, 422), as a kind may look at it.
 * `message` may hold super cluster names.
 */
export interface RefusedWrite {
  readonly code: number;
  readonly reason: string;
  readonly message: string;
  readonly causes: readonly { readonly reason: string; readonly message: string; readonly field: string }[];
}
