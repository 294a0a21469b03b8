import { z } from 'zod';

/** The long operations on a control plane. */
const jobKinds = [
  'provision',
  'version-change',
  'renewal',
  'authority-renewal',
  'key-rotation',
  'snapshot',
  'restore',
  'move',
  'sleep',
  'wake',
  'delete',
] as const;

const jobResults = ['Succeeded', 'Failed', 'Cancelled'] as const;

/** So many ended jobs are remembered. */
export const jobHistoryLimit = 10;

const time = z.string().meta({ format: 'date-time' });
const kind = z.enum(jobKinds);
const step = z.string().max(64);
const message = z.string().max(4_096);
const attempts = z
  .int()
  .min(0)
  .describe('How often it was begun: anew after a failure or by another manager.');
const target = z
  .string()
  .max(32)
  .describe('The version that a change of version leads to, or the place that a move does.')
  .optional();

export const jobStatusSchema = z.strictObject({
  current: z
    .strictObject({
      kind,
      id: z.string().max(64),
      target,
      startedAt: time,
      step: step.optional(),
      stepStartedAt: time.optional(),
      attempts,
      message: message.describe('What it does, or why it failed last.').optional(),
      holder: z.string().max(253).describe('The manager that works on it.').optional(),
      failing: z
        .boolean()
        .describe('Its last attempt has failed, and it is tried again after a pause.')
        .optional(),
      replacing: z
        .boolean()
        .describe('The API server is being replaced, or new certificates are issued: no cancelling any more.')
        .optional(),
      refusal: message.describe('Why a request to cancel it was refused.').optional(),
    })
    .describe('What is done for this control plane at present.')
    .optional(),
  history: z
    .array(
      z.strictObject({
        kind,
        id: z.string().max(64),
        target,
        result: z.enum(jobResults),
        startedAt: time,
        finishedAt: time,
        attempts,
        step: step.describe('Where it failed or was cancelled.').optional(),
        message: message.optional(),
      }),
    )
    .max(jobHistoryLimit)
    .describe('Jobs that have ended, the latest first.')
    .optional(),
  held: z
    .strictObject({
      kind,
      generation: z.int().min(0).optional(),
      why: message.describe('Why it was given up; absent when it was cancelled.').optional(),
    })
    .describe(
      'A job that was cancelled or given up does not begin again until the spec changes or a retry is requested.',
    )
    .optional(),
  heldMove: z
    .strictObject({
      generation: z.int().min(0).optional(),
      why: message.describe('Why it went back; absent when it was cancelled.').optional(),
    })
    .describe(
      'The same for a move, which is asked for by the same generation as a change of version, perhaps.',
    )
    .optional(),
  renewalHeldUntil: time.describe('A cancelled renewal of what is due waits until then.').optional(),
  renewed: z.string().max(64).describe('The last request for new certificates that was followed.').optional(),
  authorities: z
    .string()
    .max(64)
    .describe('The last request for new authorities that was followed or cancelled.')
    .optional(),
  rotated: z
    .string()
    .max(64)
    .describe('The last request for a new encryption key that was followed or cancelled.')
    .optional(),
  retried: z.string().max(64).describe('The last request to try again that was followed.').optional(),
});

export type JobKind = (typeof jobKinds)[number];
export type JobStatus = z.input<typeof jobStatusSchema>;
export type CurrentJob = NonNullable<JobStatus['current']>;
export type EndedJob = NonNullable<JobStatus['history']>[number];
