export type { FakeWatch, Fault, FaultRule } from './fake-api-server.ts';
export { FakeApiServer, type FakeApiServerOptions } from './fake-api-server.ts';
export { FakeClock } from './fake-clock.ts';
export type { Snapshot } from './fake-storage.ts';
export { type FakeCluster, startFakeCluster } from './harness.ts';
export { createTestCertificates, type TestCertificates } from './test-certificates.ts';
