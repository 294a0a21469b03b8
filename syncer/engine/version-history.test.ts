import { describe, expect, it } from 'vitest';
import { resources } from '../../kube/index.ts';
import { startFakeCluster } from '../../kube/testing/index.ts';
import { VersionHistory } from './version-history.ts';

const { signal } = new AbortController();
const { pods, events } = resources;

describe('the history of resourceVersions', () => {
  it('does not mind a list that is merely late', async () => {
    await using cluster = await startFakeCluster();
    while (Number(cluster.server.resourceVersion) < 10) cluster.server.bump();
    const history = new VersionHistory();
    history.observe(pods, '9');
    history.observe(pods, '10');
    expect(await history.regression(cluster.client, pods, '9', signal)).toBeUndefined();
    expect(cluster.server.requests).toHaveLength(1);
    expect(await history.regression(cluster.client, pods, '10', signal)).toBeUndefined();
    expect(cluster.server.requests).toHaveLength(1);
  });

  it('notices a server that shows its past', async () => {
    await using cluster = await startFakeCluster();
    const history = new VersionHistory();
    history.observe(pods, '1000');
    expect(await history.regression(cluster.client, pods, '1', signal)).toEqual({
      resource: 'pods',
      shown: '1000',
      now: '1',
    });
    history.forget();
    expect(await history.regression(cluster.client, pods, '1', signal)).toBeUndefined();
  });

  it('does not hold against an answer what was heard while it was on its way', async () => {
    await using cluster = await startFakeCluster();
    while (Number(cluster.server.resourceVersion) < 20) cluster.server.bump();
    const history = new VersionHistory();
    history.observe(pods, '20');
    const checked = history.regression(cluster.client, pods, '19', signal);
    history.observe(pods, '21');
    expect(await checked).toBeUndefined();
  });

  it('does not compare resources with one another: events may be kept elsewhere', async () => {
    await using cluster = await startFakeCluster();
    const history = new VersionHistory();
    history.observe(events, '1000');
    expect(await history.regression(cluster.client, pods, '1', signal)).toBeUndefined();
  });
});
