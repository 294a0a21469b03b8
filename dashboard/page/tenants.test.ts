import { expect, it } from 'vitest';
import { tenantColumns } from './tenants.ts';

it.each([
  ['CPU', ['cpu', 'requestsCpu'], ['', '1500m', '2', '10']],
  ['Memory', ['memory', 'requestsMemory'], ['', '900Mi', '1Gi', '2000000Ki']],
] as const)(
  'orders by %s as what is used or, where that is not known, reserved',
  (title, fields, figures) => {
    const order = tenantColumns.find((column) => column.title === title)?.order;
    for (const field of fields) {
      const rows = figures.map((figure) => (figure === '' ? {} : { [field]: figure }));
      const keys = rows.map((row) => Number(order?.(row as unknown as Parameters<typeof order>[0])));
      expect(keys).toEqual(keys.toSorted((a, b) => a - b));
      expect(new Set(keys).size).toBe(figures.length);
    }
  },
);
