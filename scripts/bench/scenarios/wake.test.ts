import { expect, it } from 'vitest';
import { assertHasGateway } from './wake.ts';

it('says what wake needs where there is no gateway', () => {
  const metadata = { name: 'sleeper' };
  expect(() => assertHasGateway({ metadata, status: {} }, 'wake')).toThrow(
    /needs a stack with a gateway.*--state-dir/,
  );
  const gateway = { server: 'https://a.example.com', serverName: 'a.example.com' };
  expect(() => assertHasGateway({ metadata, status: { gateway } }, 'wake')).not.toThrow();
});
