export type { FakeWatch, Fault, FaultRule } from './fake-api-server.ts';
export {
  FakeApiServer,
  type FakeApiServerOptions,
  type FakeCluster,
  startFakeCluster,
} from './fake-api-server.ts';
export { FakeClock } from './fake-clock.ts';
export type { Snapshot } from './fake-storage.ts';
export { type LyingHandler, type LyingServer, startLyingServer } from './lying-server.ts';
export {
  createTestCertificates,
  sharedTestCertificates,
  type TestCertificates,
} from './test-certificates.ts';
