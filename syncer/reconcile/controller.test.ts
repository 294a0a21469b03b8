import { describe, expect, it } from 'vitest';
import { ApiError, ConnectionError } from '../../kube/index.ts';
import { isRecoverable, isTransientRefusal, outcomeOf, queueOutcome } from './controller.ts';

function error(
  code: number,
  reason = '',
  message = '',
  details: { causes?: { reason: string }[]; retryAfterSeconds?: number } = {},
): ApiError {
  return new ApiError(code, { message, reason, details }, 'create pods');
}

describe('an error becomes a retry in one place', () => {
  it('refusals carry the server’s own words', () => {
    for (const code of [400, 403, 413, 422]) {
      expect(outcomeOf(error(code, '', 'no room'))).toEqual({
        is: 'refused',
        code: String(code),
        message: 'no room',
      });
    }
  });

  it('refusals that pass by themselves are silent', () => {
    const terminating = error(403, 'Forbidden', 'being terminated', {
      causes: [{ reason: 'NamespaceTerminating' }],
    });
    const account = error(
      403,
      'Forbidden',
      'error looking up service account shop/default: serviceaccount "default" not found',
    );
    const denied = error(
      403,
      'Forbidden',
      'pods is forbidden: User "skerry-syncer" cannot create resource "pods" in API group "" in the namespace "shop"',
    );
    const classes = [
      'pods "web" is forbidden: no PriorityClass with name batch was found',
      'pods "web" is forbidden: pod rejected: RuntimeClass "gvisor" not found',
    ].map((message) => error(403, 'Forbidden', message));
    for (const passing of [terminating, account, denied, ...classes]) {
      expect(isTransientRefusal(passing)).toBe(true);
      expect(outcomeOf(passing)).toMatchObject({ is: 'retry', code: 'transient403' });
    }
  });

  it('conflicts, busy servers and broken connections are tried again', () => {
    expect(outcomeOf(error(409, 'Conflict'))).toEqual({ is: 'conflict' });
    expect(outcomeOf(error(409, 'AlreadyExists'))).toMatchObject({ is: 'retry', code: '409' });
    expect(outcomeOf(error(500))).toMatchObject({ is: 'retry', code: '500' });
    expect(outcomeOf(error(429, '', '', { retryAfterSeconds: 3 }))).toMatchObject({
      is: 'retry',
      afterMs: 3_000,
    });
    expect(outcomeOf(new ConnectionError('https://x', 'ECONNRESET'))).toMatchObject({
      is: 'retry',
      code: 'ECONNRESET',
    });
    expect(outcomeOf(new TypeError('a defect'))).toMatchObject({ is: 'retry', code: 'internal' });
  });

  it('a kind may know a way round refusals, and round a taken health check port', () => {
    expect(isRecoverable(error(422))).toBe(true);
    expect(isRecoverable(error(500, '', 'failed to allocate requested HealthCheck NodePort 30001'))).toBe(
      true,
    );
    expect(isRecoverable(error(500))).toBe(false);
  });
});

describe('what the queue is told', () => {
  it('a conflict backs off: while the watch is stuck, every try at once would only be another conflict', () => {
    expect(queueOutcome({ is: 'conflict' }, '5')).toEqual({ action: 'backoff' });
  });

  it('a refusal waits for another version of the tenant object', () => {
    expect(queueOutcome({ is: 'refused', code: '422', message: '' }, '5')).toEqual({
      action: 'backoff',
      refusedVersion: '5',
    });
    expect(queueOutcome({ is: 'refused', code: '422', message: '' }, undefined)).toEqual({
      action: 'backoff',
    });
  });

  it('a server that asks to be asked again at once is spared by the back-off all the same', () => {
    const busy = (retryAfterSeconds: number) => outcomeOf(error(429, '', '', { retryAfterSeconds }));
    expect(queueOutcome(busy(0), '5')).toEqual({ action: 'backoff' });
    expect(queueOutcome(busy(3), '5')).toEqual({ action: 'later', afterMs: 3_000 });
  });

  it('the rest', () => {
    expect(queueOutcome({ is: 'done' }, '5')).toEqual({ action: 'done' });
    expect(queueOutcome({ is: 'held' }, '5')).toEqual({ action: 'done' });
    expect(queueOutcome({ is: 'later', afterMs: 7 }, '5')).toEqual({ action: 'later', afterMs: 7 });
    expect(queueOutcome({ is: 'retry', code: '500' }, '5')).toEqual({ action: 'backoff' });
  });
});
