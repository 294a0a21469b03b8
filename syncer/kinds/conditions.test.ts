import { describe, expect, it } from 'vitest';
import type { KubeObject } from '../../kube/index.ts';
import { overQuotaStatus, withinQuotaCondition, withinQuotaStatus } from './conditions.ts';

const nowMs = Date.parse('2030-01-01T12:00:00.5Z');
const words = (requested: number, used: number): string =>
  `exceeded quota, requested: services=${requested}, used: services=${used},pods=3, limited: services=2`;
const other = { type: 'Ready', status: 'True', reason: 'Fine' };

function object(conditions?: unknown): KubeObject {
  return {
    metadata: { name: 'web' },
    status: { loadBalancer: {}, ...(conditions !== undefined && { conditions }) },
  };
}

describe('the condition that says that an object waits for its quota (sync rule `quota`)', () => {
  it('has the form of any condition, beside those of others', () => {
    expect(overQuotaStatus(object([other]), words(1, 2), nowMs)).toEqual({
      conditions: [
        other,
        {
          type: withinQuotaCondition,
          status: 'False',
          reason: 'QuotaExceeded',
          message: words(1, 2),
          lastTransitionTime: '2030-01-01T12:00:00Z',
        },
      ],
    });
  });

  it('is written again when something else is asked for, and not for what else is used', () => {
    const said = object(overQuotaStatus(object(), words(1, 2), nowMs)?.conditions);
    expect(overQuotaStatus(said, words(1, 2), nowMs)).toBeUndefined();
    expect(overQuotaStatus(said, words(1, 99), nowMs + 60_000)).toBeUndefined();
    expect(overQuotaStatus(said, words(5, 2), nowMs + 60_000)).toMatchObject({
      conditions: [{ message: words(5, 2), lastTransitionTime: '2030-01-01T12:00:00Z' }],
    });
    const forged = object([{ type: withinQuotaCondition, status: 'True', message: words(1, 2) }]);
    expect(overQuotaStatus(forged, words(1, 2), nowMs)).toMatchObject({ conditions: [{ status: 'False' }] });
  });

  it('is not added to a list that is too large to repeat', () => {
    const said = (conditions: object[]) => overQuotaStatus(object(conditions), words(1, 2), nowMs);
    const many = (count: number) => Array.from({ length: count }, () => other);
    expect(said(many(50))?.conditions).toHaveLength(51);
    expect(said(many(51))).toBeUndefined();
    expect(said([{ ...other, message: 'x'.repeat(15_000) }])?.conditions).toHaveLength(2);
    expect(said([{ ...other, message: 'x'.repeat(17_000) }])).toBeUndefined();
  });

  it('is not taken out of a list that is too large to repeat', () => {
    const ours = { type: withinQuotaCondition, status: 'False' };
    const taken = (conditions: object[]) => withinQuotaStatus(object([...conditions, ours]));
    const many = (count: number) => Array.from({ length: count }, () => other);
    // As many as it is added to.
    expect(taken(many(50))?.conditions).toHaveLength(50);
    expect(taken(many(51))).toBeUndefined();
    expect(taken([{ ...other, message: 'x'.repeat(15_000) }])?.conditions).toHaveLength(1);
    expect(taken([{ ...other, message: 'x'.repeat(3_000_000) }])).toBeUndefined();
  });

  it('goes, and nothing else with it', () => {
    const said = object(overQuotaStatus(object([other]), words(1, 2), nowMs)?.conditions);
    expect(withinQuotaStatus(said)).toEqual({ conditions: [other] });
    expect(withinQuotaStatus(object([other]))).toBeUndefined();
  });

  it.each([[undefined], ['many'], [[7, null]], [{}]])(
    'does not stumble over conditions that are none: %j',
    (lie) => {
      expect(withinQuotaStatus(object(lie))).toBeUndefined();
      expect(overQuotaStatus(object(lie), words(1, 2), nowMs)?.conditions).toHaveLength(1);
    },
  );
});
