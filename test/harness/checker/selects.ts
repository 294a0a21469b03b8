import { at, listAt } from './raw.ts';

/** Whether a label selector matches; an empty one matches everything. */
export function selects(selector: unknown, labels: Readonly<Record<string, string>> = {}): boolean {
  const wanted = at<Record<string, string>>(selector, 'matchLabels') ?? {};
  if (Object.entries(wanted).some(([key, value]) => labels[key] !== value)) return false;
  return listAt<{ key: string; operator: string; values?: string[] }>(selector, 'matchExpressions').every(
    ({ key, operator, values = [] }) => {
      const value = labels[key];
      const isAmong = value !== undefined && values.includes(value);
      if (operator === 'In') return isAmong;
      if (operator === 'NotIn') return !isAmong;
      return (operator === 'Exists') === (value !== undefined);
    },
  );
}
