import { describe, expect, it } from 'vitest';
import { countsOf, differences, type States } from './agreement.ts';

function states(pods: string[], services: string[] = []): States {
  return { pods: new Set(pods), configmaps: new Set(), services: new Set(services) };
}

describe('the agreement of both sides', () => {
  it('counts what only one of them has, and what is in another state', () => {
    expect(differences(states(['1', '2']), states(['2', '1']))).toBe(0);
    expect(differences(states(['1', '2']), states(['1']))).toBe(1);
    expect(differences(states(['1'], ['7']), states(['1'], ['8']))).toBe(2);
  });

  it('tells how many there are of each kind', () => {
    expect(countsOf(states(['1', '2'], ['3']))).toEqual({ pods: 2, configmaps: 0, services: 1 });
  });
});
