import { describe, expect, it } from 'vitest';
import {
  checkConfinement,
  checkDisk,
  checkInotify,
  checkMemory,
  checkNode,
  checkOpenFiles,
  checkPlatform,
} from './doctor.ts';

const gigabyte = 1_000_000_000;

describe('what doctor thinks of a machine', () => {
  it.each([
    ['Linux', checkPlatform('linux', 'x64'), 'ok'],
    ['macOS', checkPlatform('darwin', 'arm64'), 'ok'],
    ['Windows', checkPlatform('win32', 'x64'), 'missing'],
    ['the oldest Node.js that will do', checkNode('22.18.0'), 'ok'],
    ['a current Node.js', checkNode('26.10.0'), 'ok'],
    ['an old Node.js', checkNode('22.17.9'), 'missing'],
    ['a very old Node.js', checkNode('20.20.2'), 'missing'],
    ['much memory', checkMemory(8 * gigabyte, 2), 'ok'],
    ['little memory', checkMemory(gigabyte, 2), 'warn'],
    ['enough disk space', checkDisk('state', '/s', 2 * gigabyte, gigabyte), 'ok'],
    ['a full disk', checkDisk('state', '/s', 1000, gigabyte), 'missing'],
    ['many inotify instances', checkInotify(8192), 'ok'],
    ['few inotify instances', checkInotify(128), 'warn'],
    ['a system without inotify', checkInotify(undefined), 'ok'],
    ['many open files', checkOpenFiles(65_536), 'ok'],
    ['few open files', checkOpenFiles(1024), 'warn'],
    ['no limit of open files', checkOpenFiles(undefined), 'ok'],
    ['control groups and nftables', checkConfinement(1, undefined), 'ok'],
    ['no control groups', checkConfinement(undefined, undefined), 'warn'],
    ['no nftables', checkConfinement(2, 'nft is not installed'), 'warn'],
  ])('%s', (_, finding, state) => {
    expect(finding.state).toBe(state);
    expect(finding.remedy === undefined).toBe(state === 'ok');
  });
});
