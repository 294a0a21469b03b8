import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Charge } from './charges.ts';
import { QuotaLedger } from './ledger.ts';

const charge = (pods: number, cpu = 0, unbounded: string[] = []): Charge => ({
  amounts: new Map([
    ['pods', BigInt(pods)],
    ['requests.cpu', BigInt(cpu)],
  ]),
  unbounded,
});

function ledgerWith(pods: number, cpu = 1_000, maxWaiting = 5_000): QuotaLedger {
  const ledger = new QuotaLedger({ maxWaiting });
  ledger.setLimits(
    new Map([
      ['pods', BigInt(pods)],
      ['requests.cpu', BigInt(cpu)],
    ]),
  );
  return ledger;
}

describe('the ledger of a quota', () => {
  it('reserves up to the limit, and says what there is too little of', () => {
    const ledger = ledgerWith(1);
    expect(ledger.reserve('a', charge(1))).toEqual([]);
    expect(ledger.reserve('b', charge(1))).toEqual([{ resource: 'pods', asked: 1n, used: 1n, allowed: 1n }]);
  });

  it('counts an object once, whether it is reserved, shown or both, by the larger of the two', () => {
    const ledger = ledgerWith(5);
    ledger.reserve('a', charge(1, 10));
    ledger.show('a', charge(1, 4));
    expect(ledger.used('requests.cpu')).toBe(10n);
    ledger.release('a');
    expect(ledger.used('requests.cpu')).toBe(4n);
    ledger.show('a', undefined);
    expect(ledger.used('pods')).toBe(0n);
    expect(ledger.ids()).toEqual([]);
  });

  it('judges only by how much an object grows', () => {
    const ledger = ledgerWith(1, 10);
    ledger.show('a', charge(1, 40));
    expect(ledger.reserve('a', charge(1, 39))).toEqual([]);
    expect(ledger.reserve('a', charge(1, 41))).toMatchObject([{ resource: 'requests.cpu', asked: 1n }]);
  });

  it('lets in first who came first, and nobody past who waits for the same', () => {
    const ledger = ledgerWith(100, 10);
    ledger.reserve('a', charge(1, 8));
    expect(ledger.reserve('large', charge(1, 9))).not.toEqual([]);
    expect(ledger.reserve('small', charge(1, 1))).not.toEqual([]);
    expect(ledger.reserve('other', charge(1, 0))).toEqual([]);
    expect(ledger.admit()).toEqual([]);
    ledger.release('a');
    expect(ledger.admit()).toEqual(['large', 'small']);
  });

  it('lets nobody wait behind one that can never be let in', () => {
    const ledger = ledgerWith(100, 10);
    expect(ledger.reserve('huge', charge(1, 11))).not.toEqual([]);
    expect(ledger.reserve('endless', charge(1, 0, ['requests.cpu']))).toMatchObject([{ isUnbounded: true }]);
    expect(ledger.reserve('small', charge(1, 10))).toEqual([]);
  });

  it('forgets who gives up, and makes way for those behind', () => {
    const ledger = ledgerWith(100, 10);
    ledger.reserve('a', charge(1, 8));
    ledger.reserve('large', charge(1, 9));
    ledger.reserve('small', charge(1, 1));
    ledger.giveUp('large');
    expect(ledger.admit()).toEqual(['small']);
  });

  it('takes a changed wish of one that waits', () => {
    const ledger = ledgerWith(100, 10);
    ledger.reserve('a', charge(1, 8));
    ledger.reserve('b', charge(1, 9));
    expect(ledger.reserve('b', charge(1, 2))).toEqual([]);
    expect(ledger.isWaiting('b')).toBe(false);
  });

  it('lets all in that a raised limit has room for', () => {
    const ledger = ledgerWith(0);
    for (const id of ['a', 'b', 'c']) ledger.reserve(id, charge(1));
    ledger.setLimits(new Map([['pods', 2n]]));
    expect(ledger.admit()).toEqual(['a', 'b']);
  });

  it('sends those away who find the line full, and names them when there is a place', () => {
    const ledger = ledgerWith(1, 10, 2);
    for (const id of ['a', 'b', 'c', 'd', 'e']) ledger.reserve(id, charge(1));
    expect(ledger.waiting()).toEqual(['b', 'c']);
    expect(ledger.takeNext()).toEqual([]);
    ledger.release('a');
    // Nobody takes what those in line wait for.
    expect(ledger.reserve('d', charge(1))).not.toEqual([]);
    expect(ledger.admit()).toEqual(['b']);
    expect(ledger.takeNext()).toEqual(['d']);
    ledger.reserve('d', charge(1));
    expect(ledger.waiting()).toEqual(['c', 'd']);
    expect(['d', 'e'].map((id) => ledger.isBeyond(id))).toEqual([false, true]);
  });

  it('has those that never fit keep no place from others', () => {
    const ledger = ledgerWith(1, 10, 1);
    ledger.reserve('a', charge(1));
    for (const id of ['huge', 'vast']) ledger.reserve(id, charge(2));
    ledger.reserve('b', charge(1));
    expect(ledger.waiting()).toEqual(['huge', 'b']);
    expect(ledger.isBeyond('vast')).toBe(true);
    ledger.release('a');
    expect(ledger.admit()).toEqual(['b']);
    expect(ledger.takeNext()).toEqual([]);
    ledger.giveUp('huge');
    expect(ledger.takeNext()).toEqual(['vast']);
  });

  it('has one that asks again beyond the line keep its place there', () => {
    const ledger = ledgerWith(1, 10, 1);
    for (const id of ['a', 'b', 'c', 'd']) ledger.reserve(id, charge(1));
    ledger.reserve('c', charge(1));
    ledger.release('a');
    expect(ledger.admit()).toEqual(['b']);
    expect(ledger.takeNext()).toEqual(['c']);
  });

  it('looks at nobody else when one that waits wants something else', () => {
    const ledger = ledgerWith(0);
    let looks = 0;
    const get = (): bigint => {
      looks += 1;
      return 1n;
    };
    ledger.reserve('other', { amounts: Object.assign(new Map<string, bigint>(), { get }), unbounded: [] });
    looks = 0;
    ledger.reserve('one', charge(1));
    ledger.reserve('one', charge(2));
    expect(looks).toBe(0);
    ledger.admit();
    expect(looks).toBeGreaterThan(0);
  });

  it('agrees with a plain sum, never reserves past a limit, and lets all in at last that fit', () => {
    const id = fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f');
    const amounts = fc.tuple(fc.nat(2), fc.nat(8)).map(([pods, cpu]) => charge(pods, cpu));
    const step = fc.oneof(
      fc.record({ do: fc.constant('reserve' as const), id, charge: amounts }),
      fc.record({ do: fc.constant('show' as const), id }),
      fc.record({ do: fc.constantFrom('release', 'gone', 'giveUp', 'admit'), id }),
    );
    const lines = fc.constantFrom(1, 2, 5_000);
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), lines, (steps, maxWaiting) => {
        const limits = { pods: 5n, 'requests.cpu': 16n };
        const ledger = ledgerWith(5, 16, maxWaiting);
        // What is or may be in the super cluster.
        const reserved = new Map<string, Charge>();
        const shown = new Map<string, Charge>();
        const wishes = new Map<string, Charge>();
        const admit = (): void => {
          for (const each of ledger.admit()) reserved.set(each, wishes.get(each) as Charge);
        };
        for (const each of steps) {
          if (each.do === 'reserve' && 'charge' in each) {
            wishes.set(each.id, each.charge);
            if (ledger.reserve(each.id, each.charge).length === 0) reserved.set(each.id, each.charge);
          } else if (each.do === 'show') {
            // The super cluster shows what was written, and then nothing is under way any more.
            const made = reserved.get(each.id);
            if (made !== undefined) {
              shown.set(each.id, made);
              ledger.show(each.id, made);
              ledger.release(each.id);
              reserved.delete(each.id);
            }
          } else if (each.do === 'release') {
            ledger.release(each.id);
            reserved.delete(each.id);
          } else if (each.do === 'gone') {
            ledger.show(each.id, undefined);
            shown.delete(each.id);
          } else if (each.do === 'giveUp') ledger.giveUp(each.id);
          else admit();
          for (const [resource, limit] of Object.entries(limits)) {
            let sum = 0n;
            for (const one of new Set([...reserved.keys(), ...shown.keys()])) {
              const parts = [reserved.get(one), shown.get(one)].map((c) => c?.amounts.get(resource) ?? 0n);
              sum += parts.toSorted((a, b) => (a < b ? 1 : -1))[0] ?? 0n;
            }
            expect(ledger.used(resource)).toBe(sum);
            expect(sum).toBeLessThanOrEqual(limit);
          }
        }
        for (const one of ledger.ids()) {
          ledger.release(one);
          ledger.show(one, undefined);
        }
        // Room for all, one after the other.
        for (let rounds = 0; rounds < 10; rounds += 1) {
          for (const one of ledger.admit()) ledger.release(one);
          for (const one of ledger.takeNext())
            if (ledger.reserve(one, wishes.get(one) as Charge).length === 0) ledger.release(one);
        }
        expect(ledger.waitingSize).toBe(0);
      }),
      { numRuns: 1_000 },
    );
  });
});
