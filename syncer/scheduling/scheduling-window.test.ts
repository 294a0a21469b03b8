import fc from 'fast-check';
import { beforeEach, describe, expect, it } from 'vitest';
import { FifoSet, SchedulingWindow } from './scheduling-window.ts';

describe('scheduling window', () => {
  let woken: string[];
  let window: SchedulingWindow;

  beforeEach(() => {
    woken = [];
    window = windowOf(4);
  });

  function windowOf(size: number): SchedulingWindow {
    return new SchedulingWindow({
      size: { floor: size, ceiling: size, initial: size },
      backlogSize: { floor: 1, ceiling: 1, initial: 1 },
      maxRefused: 5,
      overdueMs: 1_000,
      wake: (tenant, id) => woken.push(`${tenant}/${id}`),
    });
  }

  /** One run of the key, which creates the pod if it may. */
  function create(tenant: string, id: string, now = 0): string {
    window.began(tenant, id);
    const answer = window.ask(tenant, id, now);
    window.ended(tenant, id, answer === 'go', now);
    return answer;
  }

  function flood(tenant: string, count: number): string[] {
    return Array.from({ length: count }, (_, i) => create(tenant, `p${i}`));
  }

  describe('a tenant that creates many pods at once', () => {
    beforeEach(() => window.join('greedy', 1));

    it('has as many with the scheduler as the window holds, the rest parked in their order', () => {
      expect(flood('greedy', 7)).toEqual(['go', 'go', 'go', 'go', 'parked', 'parked', 'parked']);
      expect(window.counts()).toEqual([{ tenant: 'greedy', parked: 3, scheduling: 4, refused: 0 }]);
      window.observe('greedy', 'p1', 'placed', 5);
      window.observe('greedy', 'p0', undefined, 5);
      expect(woken).toEqual(['greedy/p4', 'greedy/p5']);
      expect(create('greedy', 'p4')).toBe('go');
    });

    it('has it full while a pod is parked, but not for one whose pods find no node', () => {
      flood('greedy', 4);
      expect(window.isFull).toBe(false);
      create('greedy', 'p4');
      expect(window.isFull).toBe(true);
      for (const id of ['p0', 'p1', 'p2', 'p3', 'p4']) {
        create('greedy', id);
        window.observe('greedy', id, 'refused', 5);
      }
      expect(create('greedy', 'p5')).toBe('full');
      expect(window.isFull).toBe(false);
    });

    it('takes no place by asking whether it may ask, and is parked where it may not', () => {
      for (const id of ['a', 'b', 'c', 'd', 'e']) expect(window.mayAsk('greedy', id, 0)).toBe('go');
      expect(window.counts()).toEqual([{ tenant: 'greedy', parked: 0, scheduling: 0, refused: 0 }]);
      flood('greedy', 4);
      expect(window.mayAsk('greedy', 'a', 0)).toBe('parked');
      expect(window.counts()).toEqual([{ tenant: 'greedy', parked: 1, scheduling: 4, refused: 0 }]);
      window.observe('greedy', 'p0', 'placed', 5);
      expect(woken).toEqual(['greedy/a']);
      expect(window.mayAsk('greedy', 'a', 6)).toBe('go');
      expect(create('greedy', 'a', 6)).toBe('go');
    });

    it('does not keep another one waiting: whoever has no pod there gets a place at once', () => {
      flood('greedy', 50);
      for (const tenant of ['a', 'b', 'c', 'd', 'e', 'f']) {
        window.join(tenant, 1);
        expect(create(tenant, 'web')).toBe('go');
      }
      expect(create('a', 'second')).toBe('parked');
    });

    it('gets no place that is due to a tenant with fewer', () => {
      flood('greedy', 50);
      window.join('a', 1);
      flood('a', 3);
      for (const id of ['p0', 'p1', 'p2']) window.observe('greedy', id, 'placed', 5);
      // The first only brings the window back to its size.
      expect(woken).toEqual(['a/p1', 'greedy/p4']);
    });

    it('keeps its place in the order when something else about a parked pod happens', () => {
      flood('greedy', 6);
      expect(create('greedy', 'p4')).toBe('parked');
      window.observe('greedy', 'p0', 'placed', 5);
      expect(woken).toEqual(['greedy/p4']);
    });

    it('is not held up by its own pods that the scheduler cannot place, until there are too many of those', () => {
      flood('greedy', 9);
      for (const id of ['p0', 'p1', 'p2', 'p3']) window.observe('greedy', id, 'refused', 5);
      expect(woken).toEqual(['greedy/p4', 'greedy/p5', 'greedy/p6', 'greedy/p7']);
      for (const id of ['p4', 'p5']) {
        create('greedy', id);
        window.observe('greedy', id, 'refused', 6);
      }
      expect(create('greedy', 'p9')).toBe('full');
      expect(woken).toHaveLength(4);
      // One of them finds a node, one is deleted: there is room for more of the kind.
      window.observe('greedy', 'p0', 'placed', 7);
      expect(woken).toHaveLength(4);
      window.observe('greedy', 'p1', undefined, 7);
      expect(woken.slice(4)).toEqual(['greedy/p8', 'greedy/p9']);
    });
  });

  describe('a tenant with a backlog, beside one whose pods find a place at once', () => {
    beforeEach(() => {
      for (const tenant of ['greedy', 'light']) window.join(tenant, 1);
      flood('greedy', 9);
      for (const id of ['p0', 'p1', 'p2', 'p3']) window.observe('greedy', id, 'placed', 0);
      for (const id of ['p4', 'p5', 'p6', 'p7']) create('greedy', id);
      create('light', 'web');
      woken = [];
    });

    it('has one place, where that is what those with a backlog share (sync rule `backlog-gives-way`)', () => {
      for (const id of ['p4', 'p5', 'p6']) window.observe('greedy', id, 'placed', 10);
      expect(woken).toEqual([]);
      window.observe('greedy', 'p7', 'placed', 11);
      window.endRests(100);
      expect(woken).toEqual(['greedy/p8']);
    });

    it('uses it no sooner than its last pod was placed and as long again has passed', () => {
      for (const id of ['p4', 'p5', 'p6', 'p7']) window.observe('greedy', id, 'placed', 40);
      expect(woken).toEqual([]);
      expect(window.nextRestEndsAt()).toBe(80);
      window.endRests(79);
      expect(woken).toEqual([]);
      window.endRests(80);
      expect(woken).toEqual(['greedy/p8']);
      expect(window.nextRestEndsAt()).toBeUndefined();
    });

    it('has the whole window again a second later, when no such pod has come', () => {
      window.observe('light', 'web', 'placed', 20);
      window.observe('greedy', 'p4', 'placed', 999);
      expect(woken).toEqual([]);
      window.observe('greedy', 'p5', 'placed', 1_000);
      expect(woken).toEqual(['greedy/p8']);
    });

    it('keeps none from others with a backlog by pods of which nothing is heard', () => {
      for (const id of ['p4', 'p5', 'p6', 'p7']) window.observe('greedy', id, 'placed', 0);
      window.observe('light', 'web', 'placed', 0);
      window.endRests(5);
      expect(woken).toEqual(['greedy/p8']);
      create('greedy', 'p8', 5);
      create('greedy', 'p9', 5);
      create('light', 'web-2', 900);
      window.sweep(1_004);
      expect(woken).toEqual(['greedy/p8']);
      window.sweep(1_005);
      expect(woken).toEqual(['greedy/p8', 'greedy/p9']);
    });
  });

  it('what tenants with a backlog share grows while the scheduler answers within 5 ms, and the whole window does not', () => {
    window = new SchedulingWindow({
      wake: (_tenant, id) => woken.push(id),
      waiting: (tenant) => (tenant === 'greedy' ? 8 : 0),
    });
    for (const tenant of ['greedy', 'light']) window.join(tenant, 1);
    create('light', 'web');
    flood('greedy', 200);
    let scheduling = ['p0', 'p1'];
    const counts: number[] = [];
    for (let now = 0; now < 100; now += 10) {
      counts.push(scheduling.length);
      for (const id of scheduling) window.observe('greedy', id, 'placed', now + 5);
      window.endRests(now + 10);
      scheduling = woken.splice(0);
      for (const id of scheduling) create('greedy', id, now + 10);
    }
    expect(counts.slice(0, 4)).toEqual([2, 2, 2, 2]);
    expect(Math.max(...counts)).toBeGreaterThan(8);
    expect(window.size).toBe(32);
  });

  /**
   * Each turn a light pod comes and is placed, as is what was granted, but to the tenant that hangs; returns how often each
   * tenant was granted a place.
   */
  function beside(turns: number, { from = 0, hanging = '' } = {}): Record<string, number> {
    const counts: Record<string, number> = {};
    let placing = woken.splice(0);
    for (let now = from; now < from + turns * 30; now += 30) {
      create('light', `web-${now}`, now);
      if (now % 900 === 0) window.sweep(now);
      for (const place of placing) {
        const [tenant = '', id = ''] = place.split('/');
        if (tenant === hanging) continue;
        create(tenant, id, now);
        window.observe(tenant, id, 'placed', now + 15);
      }
      window.observe('light', `web-${now}`, 'placed', now + 5);
      window.endRests(now + 30);
      placing = woken.splice(0);
      for (const place of placing) {
        const [tenant = ''] = place.split('/');
        counts[tenant] = (counts[tenant] ?? 0) + 1;
      }
    }
    return counts;
  }

  it('tenants with a backlog share by weight what is left beside pods of others, one place at a time', () => {
    for (const [tenant, weight] of Object.entries({ light: 1, small: 1, large: 10 }))
      window.join(tenant, weight);
    create('light', 'web');
    window.observe('light', 'web', 'placed', 0);
    for (const tenant of ['small', 'large']) flood(tenant, 200);
    for (const tenant of ['small', 'large'])
      for (let i = 0; i < 4; i += 1) window.observe(tenant, `p${i}`, 'placed', 0);
    const { small = 0, large = 0 } = beside(110);
    expect(small).toBeGreaterThanOrEqual(9);
    expect(large / small).toBeGreaterThan(8);
  });

  it('a tenant whose API server hung for a while gets no more than others afterwards', () => {
    for (const tenant of ['light', 'hung', 'other']) window.join(tenant, 1);
    create('light', 'web');
    window.observe('light', 'web', 'placed', 0);
    for (const tenant of ['hung', 'other']) flood(tenant, 500);
    for (const tenant of ['hung', 'other'])
      for (let i = 0; i < 4; i += 1) window.observe(tenant, `p${i}`, 'placed', 0);
    const meanwhile = beside(300, { hanging: 'hung' });
    expect(meanwhile['other']).toBeGreaterThan(100);
    for (const { id, phase } of window.ids('hung')) if (phase === 'granted') create('hung', id, 9_000);
    const { hung = 0, other = 0 } = beside(100, { from: 9_000 });
    expect(hung).toBeGreaterThan(10);
    expect(Math.abs(hung - other)).toBeLessThan(4);
  });

  it.each([
    ['does not grow for those that wait beside others', 2, false],
    ['grows for them where half of it is what they wait for', 64, true],
  ])('the window %s', (_, backlog, grows) => {
    window = new SchedulingWindow({
      backlogSize: { floor: backlog, ceiling: backlog, initial: backlog },
      wake: (tenant, id) => woken.push(`${tenant}/${id}`),
    });
    for (const tenant of ['greedy', 'light']) window.join(tenant, 1);
    flood('greedy', 2_000);
    create('light', 'web');
    for (let i = 0; i < 32; i += 1) window.observe('greedy', `p${i}`, 'placed', 60);
    beside(100);
    expect(window.size > 32).toBe(grows);
  });

  it('others give way to a pod that the watch shows before the run that has created it has ended', () => {
    for (const tenant of ['greedy', 'light']) window.join(tenant, 1);
    flood('greedy', 9);
    window.began('light', 'web');
    window.ask('light', 'web', 0);
    window.observe('light', 'web', 'waiting', 0);
    window.ended('light', 'web', true, 0);
    for (const id of ['p0', 'p1', 'p2', 'p3']) window.observe('greedy', id, 'placed', 0);
    expect(woken).toEqual(['greedy/p4']);
  });

  it('a pod that the super cluster refuses makes nobody give way', () => {
    for (const tenant of ['greedy', 'light']) window.join(tenant, 1);
    flood('greedy', 9);
    window.began('light', 'web');
    window.ask('light', 'web', 0);
    window.ended('light', 'web', false, 0);
    for (const id of ['p0', 'p1', 'p2', 'p3']) window.observe('greedy', id, 'placed', 0);
    expect(woken).toEqual(['greedy/p4', 'greedy/p5', 'greedy/p6', 'greedy/p7']);
  });

  it('a tenant has a backlog as well while much of it waits for a worker', () => {
    let waiting = 8;
    window = new SchedulingWindow({
      size: { floor: 4, ceiling: 4, initial: 4 },
      backlogSize: { floor: 1, ceiling: 1, initial: 1 },
      wake: () => undefined,
      waiting: (tenant) => (tenant === 'greedy' ? waiting : 0),
    });
    for (const tenant of ['greedy', 'light']) window.join(tenant, 1);
    create('light', 'web');
    expect(create('greedy', 'p1')).toBe('go');
    expect(create('greedy', 'p2')).toBe('parked');
    waiting = 7;
    window.leave('greedy');
    window.join('greedy', 1);
    expect(['p1', 'p2', 'p3'].map((id) => create('greedy', id))).toEqual(['go', 'go', 'go']);
  });

  describe('weights', () => {
    it('1 and 3 get one place and three of four', () => {
      window.join('small', 1);
      window.join('large', 3);
      flood('small', 50);
      flood('large', 50);
      const turns = { small: 0, large: 0 };
      const waiting: string[] = ['small/p0', 'small/p1', 'small/p2', 'small/p3', 'large/p0'];
      for (let i = 0; i < 40; i += 1) {
        const [tenant = '', id = ''] = (waiting.shift() ?? '').split('/');
        const before = woken.length;
        window.observe(tenant, id, 'placed', i);
        for (const next of woken.slice(before)) {
          const [who = '', what = ''] = next.split('/');
          create(who, what);
          waiting.push(next);
          if (i >= 8) turns[who as 'small' | 'large'] += 1;
        }
      }
      expect(turns).toEqual({ small: 8, large: 24 });
    });
  });

  describe('a tenant that makes nothing of its places, as its API server hangs', () => {
    it('keeps no places from others, but one at a time, until it comes for one', () => {
      window.join('greedy', 1);
      window.join('a', 1);
      flood('greedy', 12);
      // The pods are placed, and each place goes to the next in line, whose run never begins.
      for (const id of ['p0', 'p1', 'p2', 'p3']) window.observe('greedy', id, 'placed', 5);
      expect(window.inUse).toBe(4);
      expect(flood('a', 4)).toEqual(['go', 'parked', 'parked', 'parked']);
      window.sweep(1_000);
      window.sweep(3_000);
      expect(woken.filter((each) => each.startsWith('a/'))).toEqual(['a/p1', 'a/p2', 'a/p3']);
      expect(window.counts()).toContainEqual({ tenant: 'greedy', parked: 7, scheduling: 1, refused: 0 });
      for (const id of ['p0', 'p1', 'p2', 'p3']) {
        create('a', id);
        window.observe('a', id, 'placed', 3_100);
      }
      woken = [];
      const granted = [...window.ids('greedy')].find(({ phase }) => phase === 'granted')?.id ?? '';
      expect(create('greedy', granted)).toBe('go');
      expect(woken).toHaveLength(3);
    });
  });

  describe('nothing is kept that is not in use', () => {
    beforeEach(() => {
      window.join('a', 1);
      flood('a', 6);
    });

    it('when a create fails', () => {
      window.observe('a', 'p0', 'placed', 1);
      window.began('a', 'p4');
      expect(window.ask('a', 'p4', 1)).toBe('go');
      window.ended('a', 'p4', false, 1);
      expect(woken).toEqual(['a/p4', 'a/p5']);
    });

    it('when a parked pod is deleted', () => {
      window.began('a', 'p4');
      window.ended('a', 'p4', false, 1);
      window.observe('a', 'p0', 'placed', 1);
      expect(woken).toEqual(['a/p5']);
    });

    it('when a pod is deleted that has just got its place', () => {
      window.observe('a', 'p0', 'placed', 1);
      expect(woken).toEqual(['a/p4']);
      window.began('a', 'p4');
      window.ended('a', 'p4', false, 1);
      expect(woken).toEqual(['a/p4', 'a/p5']);
    });

    it('when a place is given during a run that began before', () => {
      window.began('a', 'p4');
      expect(window.ask('a', 'p4', 1)).toBe('parked');
      window.observe('a', 'p0', 'placed', 1);
      window.ended('a', 'p4', false, 1);
      expect(create('a', 'p4')).toBe('go');
    });

    it('when the tenant leaves', () => {
      window.join('b', 1);
      flood('b', 3);
      window.leave('a');
      expect(window.counts()).toEqual([{ tenant: 'b', parked: 0, scheduling: 3, refused: 0 }]);
      expect(woken).toEqual(['b/p1', 'b/p2']);
      window.observe('a', 'p0', 'placed', 1);
      expect(window.inUse).toBe(3);
    });

    it('when the scheduler says nothing of a pod, which may wait for others to come', () => {
      window.sweep(900);
      expect(woken).toEqual([]);
      window.sweep(1_000);
      expect(window.counts()).toMatchObject([{ parked: 0, scheduling: 2, refused: 4 }]);
      expect(woken).toEqual(['a/p4', 'a/p5']);
      window.observe('a', 'p0', 'waiting', 1_001);
      window.observe('a', 'p0', 'placed', 1_002);
      expect(window.counts()).toMatchObject([{ refused: 3 }]);
    });
  });

  describe('pods that are there already', () => {
    it('count, after a restart, with their states', () => {
      window.join('a', 1);
      for (const id of ['p0', 'p1', 'p2', 'p3']) window.observe('a', id, 'waiting', 0, false);
      window.observe('a', 'p4', 'refused', 0, false);
      window.observe('a', 'p5', 'placed', 0, false);
      window.observe('a', 'p6', 'none', 0, false);
      expect(window.counts()).toEqual([{ tenant: 'a', parked: 0, scheduling: 4, refused: 1 }]);
      expect(create('a', 'p7')).toBe('parked');
    });

    it('do not say how long the scheduler takes: nobody saw them come', () => {
      window = new SchedulingWindow({ wake: () => undefined });
      window.join('a', 1);
      for (let i = 0; i < 100; i += 1) window.observe('a', `p${i}`, 'waiting', 0, false);
      for (let i = 0; i < 100; i += 1) window.observe('a', `p${i}`, 'placed', 60_000);
      expect(window.size).toBe(32);
    });
  });
});

describe('Line', () => {
  it('hands out what is in it, in the order in which it came, whatever has left from the middle', () => {
    const step = fc.oneof(
      fc.record({ do: fc.constant('add' as const), item: fc.nat(9) }),
      fc.record({ do: fc.constant('remove' as const), item: fc.nat(9) }),
      fc.record({ do: fc.constant('shift' as const) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60, size: 'max' }), (steps) => {
        const line = new FifoSet<number>();
        let model: number[] = [];
        for (const each of steps) {
          if (each.do === 'add') {
            line.add(each.item);
            if (!model.includes(each.item)) model.push(each.item);
          } else if (each.do === 'remove') {
            line.remove(each.item);
            model = model.filter((item) => item !== each.item);
          } else {
            expect(line.shift()).toBe(model.shift());
          }
          expect(line.size).toBe(model.length);
        }
        while (model.length > 0) expect(line.shift()).toBe(model.shift());
        expect(line.shift()).toBeUndefined();
      }),
    );
  });
});
