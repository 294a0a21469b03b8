/** One object of kwok's Stage API, as far as it is used here. */
export interface Stage {
  apiVersion: 'kwok.x-k8s.io/v1alpha1';
  kind: 'Stage';
  metadata: { name: string };
  spec: Record<string, unknown>;
}

export interface StageOptions {
  name: string;
  kind: 'Node' | 'Pod';
  /** jq condition on the object. Of several stages that apply kwok takes one at random: let only one apply. */
  when: string;
  delayMs?: number;
  /** With it the delay is a random one from `delayMs` to this. */
  longestDelayMs?: number;
  /** jq expression for a duration such as `5s` that takes the place of `delayMs` where it yields something. */
  delayFrom?: string;
  /** Go template of the status to merge in. */
  status?: string;
  /**
   * Delete the object, which kwok does by its name alone. So a stage that deletes must not change anything before: that
   * would be one more event, and one more deletion for it, of whoever has the name by then.
   */
  delete?: boolean;
}

export function stage(options: StageOptions): Stage {
  const steps: Record<string, unknown>[] = [];
  if (options.status !== undefined) {
    steps.push({ patch: { subresource: 'status', type: 'strategic', template: patchOf(options.status) } });
  }
  if (options.delete) steps.push({ delete: true });
  const delay = {
    ...(options.delayMs === undefined ? {} : { durationMilliseconds: options.delayMs }),
    ...(options.longestDelayMs === undefined ? {} : { jitterDurationMilliseconds: options.longestDelayMs }),
    ...(options.delayFrom === undefined ? {} : { durationFrom: { jq: { expression: options.delayFrom } } }),
  };
  return {
    apiVersion: 'kwok.x-k8s.io/v1alpha1',
    kind: 'Stage',
    metadata: { name: options.name },
    spec: {
      resourceRef: { apiGroup: 'v1', kind: options.kind },
      // An expression without a result does not exist for kwok, so a condition that is not met has none.
      selector: {
        matchExpressions: [
          { jq: { key: `if ${options.when} then "yes" else empty end`, operator: 'Exists' } },
        ],
      },
      ...(Object.keys(delay).length === 0 ? {} : { delay }),
      steps,
    },
  };
}

/** kwok sends it to whoever has the object's name by then; the UID makes the server refuse it for another object. */
function patchOf(status: string): string {
  return `
metadata:
  uid: {{ .metadata.uid | Quote }}
status:
${status.trim().replaceAll(/^(?=.)/gm, '  ')}
`.trim();
}
