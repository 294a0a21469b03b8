import { describe, expect, it } from 'vitest';
import { metricSum } from './prometheus.ts';

const text = `# HELP depth Items.
# TYPE depth gauge
depth{tenant="a",state="live"} 3
depth{tenant="b",state="live"} 4
depth{tenant="b",state="delayed"} 50
depth_total 7
heap_bytes 1.5e+06
`;

describe('a metric', () => {
  it('is added up over its series, or over those that are wanted', () => {
    expect(metricSum(text, 'depth')).toBe(57);
    expect(metricSum(text, 'depth', (labels) => labels.get('state') === 'live')).toBe(7);
  });

  it('may have no labels, and is not one whose name only begins alike', () => {
    expect(metricSum(text, 'heap_bytes')).toBe(1_500_000);
    expect(metricSum(text, 'depth_total')).toBe(7);
    expect(metricSum(text, 'nothing')).toBe(0);
  });
});
