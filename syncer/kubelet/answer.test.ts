import { describe, expect, it } from 'vitest';
import { parseKubeletPath, unavailable } from './answer.ts';

describe('a request to a kubelet', () => {
  it('is understood by verb and pod', () => {
    expect(parseKubeletPath('/containerLogs/default/web-1/nginx?follow=true')).toEqual({
      verb: 'logs',
      pod: 'web-1',
    });
    expect(parseKubeletPath('/exec/default/web-1/nginx?command=sh')).toEqual({ verb: 'exec', pod: 'web-1' });
    expect(parseKubeletPath('/attach/default/web-1/nginx')).toEqual({ verb: 'attach', pod: 'web-1' });
    expect(parseKubeletPath('/portForward/default/web-1')).toEqual({ verb: 'port-forward', pod: 'web-1' });
    expect(parseKubeletPath('/stats/summary')).toEqual({ verb: 'other' });
    expect(parseKubeletPath('/')).toEqual({ verb: 'other' });
  });

  it('is answered in one sentence that names the pod and the reason', () => {
    expect(unavailable({ verb: 'logs', pod: 'web-1' }, true)).toBe(
      'logs is not available for pod web-1: its node is simulated and runs no containers',
    );
    expect(unavailable({ verb: 'other' }, false)).toMatch(/^this request is not available: this version/);
  });
});
