import { Resolver } from 'node:dns/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { answerTo, OutsideDns } from './outside-dns.ts';

describe('OutsideDns', () => {
  const options = { suffix: 'outside.test', address: '192.0.2.7' };
  const dns = new OutsideDns({ host: '127.0.0.1', port: 0, ...options });
  const resolver = new Resolver({ timeout: 30_000, tries: 1 });

  beforeAll(async () => {
    await dns.listen();
    resolver.setServers([`127.0.0.1:${dns.port}`]);
  });

  afterAll(() => dns.close());

  it('knows the address of every name under its suffix, in any case', async () => {
    expect(await resolver.resolve4('www.outside.test')).toEqual(['192.0.2.7']);
    expect(await resolver.resolve4('A.B.Outside.Test')).toEqual(['192.0.2.7']);
  });

  it('says of a name that it exists but has no address of another kind', async () => {
    await expect(resolver.resolve6('www.outside.test')).rejects.toMatchObject({ code: 'ENODATA' });
  });

  it('says of all other names that there are none', async () => {
    await expect(resolver.resolve4('www.inside.test')).rejects.toMatchObject({ code: 'ENOTFOUND' });
    await expect(resolver.resolve4('notoutside.test')).rejects.toMatchObject({ code: 'ENOTFOUND' });
  });

  it('keeps silent about what is no question', () => {
    for (const message of [
      Buffer.alloc(0),
      Buffer.alloc(12),
      Buffer.alloc(40, 0xff),
      Buffer.from('too short'),
    ]) {
      expect(answerTo(message, options)).toBeUndefined();
    }
  });
});
