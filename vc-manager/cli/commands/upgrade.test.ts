import { describe, expect, it } from 'vitest';
import { describeUpgrade, parseDeprecatedApis } from './upgrade.ts';

const series = (labels: string, value = 1): string =>
  `apiserver_requested_deprecated_apis{${labels}} ${value}`;

describe('what speaks against an upgrade', () => {
  it('is what the tenant uses and the new version does not serve, each once', () => {
    const metrics = [
      '# TYPE apiserver_requested_deprecated_apis gauge',
      series(
        'group="flowcontrol.apiserver.k8s.io",removed_release="1.32",resource="flowschemas",subresource="",version="v1beta3"',
      ),
      series(
        'group="flowcontrol.apiserver.k8s.io",removed_release="1.32",resource="flowschemas",subresource="status",version="v1beta3"',
      ),
      series('group="",removed_release="",resource="componentstatuses",subresource="",version="v1"'),
      series('group="",removed_release="1.9",resource="old",subresource="",version="v1"', 0),
      series('group="policy",removed_release="1.40",resource="later",subresource="",version="v1beta1"'),
      'apiserver_request_total{resource="pods",removed_release="1.2"} 1',
    ].join('\n');
    expect(parseDeprecatedApis(metrics, '1.36.3')).toEqual([
      'flowschemas.v1beta3.flowcontrol.apiserver.k8s.io',
    ]);
    expect(parseDeprecatedApis(metrics, '1.40.0')).toHaveLength(2);
    expect(parseDeprecatedApis(metrics, '1.31.9')).toEqual([]);
  });

  it('is told with what would be done, which a dry run says of itself', () => {
    const vc = { metadata: { name: 'blue' }, status: { version: '1.35.4' } };
    const change = { from: '1.35.4', to: '1.36.3' };
    const plan = { target: '1.36', change, removed: ['flowschemas.v1beta3'] };
    const dry = describeUpgrade(vc, plan, ' (dry run)');
    expect(dry).toContain('blue would go from 1.35.4 to 1.36.3 (dry run): its API server is replaced');
    expect(dry).toContain('APIs that 1.36.3 does not have: flowschemas.v1beta3');
    expect(describeUpgrade(vc, plan)).not.toContain('dry run');
    expect(describeUpgrade(vc, { target: '1.35', removed: [] })).toBe('blue runs 1.35.4 already\n');
  });

  it('is looked for no longer than it takes, whatever a tenant answers', () => {
    const labels = `removed_release="1.2",${'a="'.repeat(100_000)}`;
    expect(parseDeprecatedApis(`${series(labels)}\n`.repeat(20), '1.36.3').length).toBeLessThanOrEqual(1);
  });
});
