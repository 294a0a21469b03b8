import { describe, expect, it } from 'vitest';
import { ApiError, ConnectionError, KubeconfigError, type Status } from '../../kube/index.ts';
import { alreadyRunning, BackgroundFailure, CliError, describeFailure, invalidArgument } from './errors.ts';

function answer(code: number, status: Status): ApiError {
  return new ApiError(code, { kind: 'Status', code, ...status }, 'GET /apis/x');
}

const named = { details: { name: 'blue', kind: 'virtualclusters' } };

describe('describeFailure', () => {
  it.each([
    ['a wrong argument', invalidArgument('no'), 2],
    ['something that is not there', new CliError('NotFound', 'no'), 3],
    ['an object that is not there', answer(404, { reason: 'NotFound', message: 'no', ...named }), 3],
    ['a cluster without Skerry', new ApiError(404, undefined, 'GET /apis/skerry.dev'), 3],
    ['time that is up', new CliError('TimedOut', 'no'), 4],
    ['a stack that does not run', new CliError('NotRunning', 'no'), 5],
    ['a server that does not answer', new ConnectionError('https://x', 'ECONNREFUSED'), 5],
    ['a second supervisor', alreadyRunning('/state', 7), 6],
    ['an object that exists', answer(409, { reason: 'AlreadyExists', message: 'no', ...named }), 6],
    ['credentials that are not known', answer(401, { reason: 'Unauthorized', message: 'no' }), 7],
    ['what is not allowed', answer(403, { reason: 'Forbidden', message: 'no' }), 7],
    ['a refusal by the server', answer(422, { reason: 'Invalid', message: 'no' }), 1],
    ['a kubeconfig that cannot be used', new KubeconfigError('InvalidKubeconfig', 'no'), 1],
    ['Ctrl-C', new CliError('Interrupted', 'no'), 130],
    ['what the background died of', new BackgroundFailure('no', 5), 5],
    ['anything else', new Error('no'), 1],
    ['what is not even an error', 'no', 1],
  ])('gives %s its exit code', (_, error, exitCode) => {
    expect(describeFailure(error)).toMatchObject({ exitCode });
  });

  it('says what to do when the cluster knows no VirtualClusters', () => {
    const { message } = describeFailure(new ApiError(404, undefined, 'GET /apis/skerry.dev'));
    expect(message).toContain('Skerry is not installed in it. Install the Helm chart in it, start');
  });

  it('passes on what the server says, without method and path', () => {
    const { message } = describeFailure(answer(403, { reason: 'Forbidden', message: 'you may not' }));
    expect(message).toBe('you may not');
  });
});
