import { expect, it } from 'vitest';
import { loadTemplates } from '../../control-plane/template.ts';
import { wholeVersion } from './binaries.ts';

it('a short version is the one that tenants of that version get, and an unknown one names those on offer', async () => {
  const [some] = await loadTemplates();
  const full = some?.spec.kubernetesVersion ?? '';
  expect(await wholeVersion(full.split('.').slice(0, 2).join('.'))).toBe(full);
  expect(await wholeVersion('1.36.1')).toBe('1.36.1');
  await expect(wholeVersion('1.99')).rejects.toThrow(full);
});
