import { expect, it } from 'vitest';
import { GatewayMetrics } from './gateway-metrics.ts';

it('beyond a thousand tenants counts the others together, and has room again when some are gone', async () => {
  const metrics = new GatewayMetrics();
  for (let count = 0; count < 1_000; count++) metrics.opened(`acme/t${count}`);
  const close = metrics.opened('acme/late');
  metrics.refused('rate', 'acme/late');
  metrics.refused('nameless');
  let text = await metrics.render();
  expect(text).not.toContain('acme/late');
  expect(text).toContain('skerry_gateway_connections{tenant="other"} 1');
  expect(text).toContain('skerry_gateway_refused_total{reason="rate",tenant="other"} 1');
  expect(text).toContain('skerry_gateway_refused_total{reason="nameless",tenant=""} 1');
  close();
  metrics.keepOnly(new Set(['acme/t1']));
  metrics.opened('acme/late');
  text = await metrics.render();
  expect(text).toContain('skerry_gateway_connections{tenant="other"} 0');
  expect(text).toContain('skerry_gateway_connections{tenant="acme/late"} 1');
  expect(text).not.toContain('acme/t2"');
});

it('shows nothing of a tenant that is gone when its last connection closes', async () => {
  const metrics = new GatewayMetrics();
  const close = metrics.opened('acme/blue');
  metrics.keepOnly(new Set());
  close();
  expect(await metrics.render()).not.toContain('acme/blue');
});
