import { describe, expect, it } from 'vitest';
import { type EtcdServerOptions, etcdServerArguments } from './server-arguments.ts';

const options: EtcdServerOptions = {
  name: 'datastore',
  dataDir: '/state/data',
  clientPort: 2379,
  peerPort: 2380,
  tls: {
    caFile: '/pki/ca.crt',
    certFile: '/pki/server.crt',
    keyFile: '/pki/server.key',
    serverName: 'etcd-server',
  },
};

describe('etcdServerArguments', () => {
  it('listens on loopback only, with certificates on every port that takes data', () => {
    const args = etcdServerArguments({ ...options, httpPort: 2378, metricsPort: 2381 });
    const urls = args.filter((arg) => arg.includes('://'));
    expect(urls).toEqual([
      '--listen-client-urls=https://127.0.0.1:2379',
      '--advertise-client-urls=https://127.0.0.1:2379',
      '--listen-client-http-urls=https://127.0.0.1:2378',
      '--listen-peer-urls=https://127.0.0.1:2380',
      '--initial-advertise-peer-urls=https://127.0.0.1:2380',
      '--initial-cluster=datastore=https://127.0.0.1:2380',
      '--listen-metrics-urls=http://127.0.0.1:2381',
    ]);
    expect(args).toContain('--client-cert-auth=true');
    expect(args).toContain('--peer-client-cert-auth=true');
    expect(args).toContain('--peer-cert-allowed-cn=etcd-server');
  });

  it('compacts by itself, as API servers are told not to', () => {
    expect(etcdServerArguments(options)).toContain('--auto-compaction-mode=periodic');
  });

  it('lets writes of others pass while it compacts what one has made large', () => {
    expect(etcdServerArguments(options)).toContain('--compaction-batch-limit=20');
  });

  it('has forgotten the version of a list before a client that lists and watches opens its watch anew', () => {
    const retention = etcdServerArguments(options).find((each) => each.includes('retention='));
    const [, minutes, seconds] = /=(\d+)m(\d+)s$/.exec(retention ?? '') ?? [];
    // It compacts as often as it says, to what is that old.
    const atMostKept = 2 * (Number(minutes) * 60 + Number(seconds));
    const shortestWatchOfClientGo = 300;
    expect(atMostKept).toBeLessThanOrEqual(shortestWatchOfClientGo);
  });

  it('waits for the disk unless told otherwise', () => {
    expect(etcdServerArguments(options).join(' ')).not.toContain('fsync');
    expect(etcdServerArguments({ ...options, unsafeNoFsync: true })).toContain('--unsafe-no-fsync=true');
  });

  it('takes another address, IPv6 too, and another quota', () => {
    const args = etcdServerArguments({ ...options, host: 'fd00::1', quotaBytes: 1024 });
    expect(args).toContain('--listen-client-urls=https://[fd00::1]:2379');
    expect(args).toContain('--quota-backend-bytes=1024');
  });

  it.each([
    { name: 'a=b' },
    { clientPort: 0 },
    { peerPort: 65_536 },
    { metricsPort: 2379 },
    { quotaBytes: 0 },
    { quotaBytes: 1.5 },
  ])('refuses %j', (change) => {
    expect(() => etcdServerArguments({ ...options, ...change })).toThrow(
      expect.objectContaining({ code: 'InvalidOptions' }),
    );
  });
});
