import { expect, it } from 'vitest';
import { assertIsWoken } from './wake.ts';

it('says what wake needs where there is no gateway', () => {
  const metadata = { name: 'sleeper' };
  expect(() => assertIsWoken({ metadata, status: {} })).toThrow(/needs a stack with a gateway.*--state-dir/);
  const gateway = { server: 'https://a.example.com', serverName: 'a.example.com' };
  expect(() => assertIsWoken({ metadata, status: { gateway } })).not.toThrow();
});
