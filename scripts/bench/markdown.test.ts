import { describe, expect, it } from 'vitest';
import { renderCell, renderTable } from './markdown.ts';

describe('a table', () => {
  it('lines numbers up on the right and names on the left', () => {
    const text = renderTable({
      title: 'burst',
      columns: ['side', 'pods/s'],
      rows: [
        ['direct', 150.4],
        ['tenants', 99],
      ],
      notes: ['medians of 3'],
    });
    expect(text).toBe(
      [
        '### burst',
        '',
        '| side    | pods/s |',
        '| ------- | -----: |',
        '| direct  |    150 |',
        '| tenants |   99.0 |',
        '',
        'medians of 3',
      ].join('\n'),
    );
  });
});

describe('a number in a table', () => {
  it('has three significant digits', () => {
    expect([1234.5, 123.45, 12.345, 1.2345, 0.12345, 0.0012345].map(renderCell)).toEqual([
      '1235',
      '123',
      '12.3',
      '1.23',
      '0.123',
      '0.001',
    ]);
  });

  it('is a dash where nothing was measured', () => {
    expect([undefined, Number.NaN, Number.POSITIVE_INFINITY, 0].map(renderCell)).toEqual([
      '-',
      '-',
      '-',
      '0',
    ]);
  });
});
