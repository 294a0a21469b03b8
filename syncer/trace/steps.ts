import type { Whose } from '../../api/pod-report.ts';
/**
 * What happens to a pod on its way, each at the time when the syncer did or saw it for the first time.
 *
 * - `seen`: the tenant's watch showed the new pod T. The zero of all other times.
 * - `queued`, `taken`: its key came into the queue; a worker took it.
 * - `held`, `admitted`: it was kept back because its tenant has enough unscheduled pods, and let go on.
 * - `createSent`, `created`: S was asked for; it is there, by the answer or by the watch.
 * - `scheduled`: S has a node.
 * - `bindingSent`, `bound`: T was bound to that node, by the answer or by the watch.
 * - `tokensWritten`: the Secret with the tokens that S mounts is there.
 * - `running`, `ready`: S says so. One that ends without ever having been ready counts as ready when it ends.
 * - `statusSent`, `told`: T was told; T says so.
 * - `deleted`: T has gone before that.
 */
export const podSteps = [
  'seen',
  'queued',
  'taken',
  'held',
  'admitted',
  'createSent',
  'created',
  'scheduled',
  'bindingSent',
  'bound',
  'tokensWritten',
  'running',
  'ready',
  'statusSent',
  'told',
  'deleted',
] as const;

export type PodStep = (typeof podSteps)[number];

export interface PodSpan {
  readonly name: string;
  readonly whose: Whose;
  /** It begins with the latest of these that came before its end. */
  readonly from: readonly [PodStep, ...PodStep[]];
  readonly to: PodStep;
  /** Most pods come without: nobody can tell that one waits for its end. */
  readonly isOptional?: boolean;
}

/** The ways between the steps, in order. `bind` and `tokens` go on while kubelet starts the pod. */
export const podSpans: readonly PodSpan[] = [
  { name: 'queue', whose: 'skerry', from: ['seen'], to: 'taken' },
  { name: 'window', whose: 'skerry', from: ['held'], to: 'admitted' },
  { name: 'prepare', whose: 'skerry', from: ['taken', 'admitted'], to: 'createSent' },
  { name: 'create', whose: 'skerry', from: ['createSent'], to: 'created' },
  { name: 'schedule', whose: 'scheduler', from: ['created'], to: 'scheduled' },
  { name: 'bind', whose: 'skerry', from: ['scheduled'], to: 'bound' },
  { name: 'tokens', whose: 'skerry', from: ['bound'], to: 'tokensWritten', isOptional: true },
  { name: 'start', whose: 'kubelet', from: ['scheduled', 'tokensWritten'], to: 'ready' },
  { name: 'status', whose: 'skerry', from: ['ready', 'bound'], to: 'told' },
];

/** When steps were reached, in milliseconds since `seen`; undefined: not yet. */
export interface StepTimes {
  at(step: PodStep): number | undefined;
}

/** When a span that ends at `endMs` began; `undefined`: it has not. */
export function spanStart(span: PodSpan, times: StepTimes, endMs: number): number | undefined {
  let start: number | undefined;
  for (const step of span.from) {
    const at = times.at(step);
    if (at !== undefined && at <= endMs && (start === undefined || at > start)) start = at;
  }
  return start;
}
