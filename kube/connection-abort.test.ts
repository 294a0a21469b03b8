import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { KubeClient } from './client.ts';
import { Connection } from './connection.ts';
import { resources } from './resources.ts';
import { createTestCertificates, FakeApiServer, type TestCertificates } from './testing/index.ts';

let certificates: TestCertificates;
let server: FakeApiServer;

beforeAll(async () => {
  certificates = await createTestCertificates();
});

afterEach(() => server.stop());

describe('Connection over HTTP/2', () => {
  // What undici emits without a listener is an uncaught exception, which fails the run.
  it('can be closed after a call that was aborted in the very turn in which it was made', async () => {
    server = await FakeApiServer.start({ certificates });
    for (let turn = 0; turn < 3; turn++) {
      const connection = new Connection(server.connectionOptions);
      const client = new KubeClient(connection);
      await client.list(resources.pods);
      const abort = new AbortController();
      const call = client.list(resources.pods, { signal: abort.signal });
      abort.abort(new Error('changed my mind'));
      await expect(call).rejects.toThrow('changed my mind');
      await client.list(resources.pods);
      await connection.close();
    }
  });
});
