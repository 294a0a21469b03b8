import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type CertificateAuthority, createAuthority, issue } from '../pki/index.ts';
import { redisConnection } from './bullmq-runner.ts';
import { Fleet } from './testing/fleet.ts';
import { RedisServer, whyNoRedis } from './testing/redis-server.ts';

const without = whyNoRedis();
const trusted = getCACertificates('default');

describe.skipIf(without !== undefined)(
  `Redis over TLS, with a password${without === undefined ? '' : ` (${without})`}`,
  () => {
    let authority: CertificateAuthority;
    let redis: RedisServer;

    beforeEach(async () => {
      const now = new Date();
      authority = await createAuthority({ commonName: 'redis-ca', now });
      const tls = await issue(authority, {
        commonName: 'redis',
        ipAddresses: ['127.0.0.1'],
        usage: ['server'],
        now,
      });
      redis = await RedisServer.start({ password: 'secret', tls });
    });

    afterEach(async () => {
      setDefaultCACertificates(trusted);
      await redis.stop();
    });

    it('is not used while its authority is unknown, and the error says so', async () => {
      const problem = Promise.withResolvers<Error & { code?: string }>();
      let isReady = false;
      // A server that is slow to shake hands is another problem, and is tried again.
      const connection = redisConnection(redis.url, (error) => {
        if (/certificate/.test(error.message)) problem.resolve(error);
      });
      connection.once('ready', () => {
        isReady = true;
        problem.reject(new Error('the connection was used'));
      });
      expect((await problem.promise).code).toMatch(/^(UNABLE_TO_VERIFY|SELF_SIGNED|UNABLE_TO_GET_ISSUER)/);
      expect(isReady).toBe(false);
      connection.disconnect();
    });

    it('is shared by managers that know its authority', async () => {
      // As NODE_EXTRA_CA_CERTS does for a process from its beginning.
      setDefaultCACertificates([...trusted, authority.certPem]);
      const fleet = new Fleet({ redis: redis.url });
      try {
        fleet.manager().lead('a', 'b');
        await fleet.until(() => fleet.isDone('a') && fleet.isDone('b'));
        expect(fleet.taken.toSorted()).toEqual(['a', 'b']);
      } finally {
        await fleet.end();
      }
    });
  },
);
