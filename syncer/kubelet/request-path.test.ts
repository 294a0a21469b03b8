import { describe, expect, it } from 'vitest';
import { Refusal } from './refusal.ts';
import { askedNode, parseKubeletRequest, subresourcePath } from './request-path.ts';
import { Parsing } from './testing/parsing.ts';

const target = { namespace: 'acme-blue-shop-abcdefghijklmnop', name: 'web-1' };

/** What the super cluster is asked for; undefined when the request is not about a pod. */
function there(url: string): string | undefined {
  const request = parseKubeletRequest(url);
  if (request.about !== 'pod') return undefined;
  const path = subresourcePath(request.pod, { ...target, name: request.pod.pod });
  return path.replace(`/api/v1/namespaces/${target.namespace}/pods/`, '');
}

describe('a request to a kubelet about a pod', () => {
  it('for logs keeps every parameter', () => {
    const query =
      'follow=true&limitBytes=1024&previous=true&sinceSeconds=0&sinceTime=2026-01-02T03%3A04%3A05%2B02%3A00' +
      '&stream=Stderr&tailLines=5&timestamps=true';
    const asked = there(`/containerLogs/shop/web-1/main?${query}`);
    const [path, search = ''] = asked?.split('?') ?? [];
    expect(path).toBe('web-1/log');
    expect(Object.fromEntries(new URLSearchParams(search))).toEqual({
      container: 'main',
      follow: 'true',
      limitBytes: '1024',
      previous: 'true',
      sinceSeconds: '0',
      sinceTime: '2026-01-02T03:04:05+02:00',
      stream: 'Stderr',
      tailLines: '5',
      timestamps: 'true',
    });
    expect(there('/containerLogs/shop/web-1/main')).toBe('web-1/log?container=main');
    // The default: said aloud it is refused by super clusters that do not know of it.
    expect(there('/containerLogs/shop/web-1/main?stream=All')).toBe('web-1/log?container=main');
  });

  it('for logs knows the old name of tailLines', () => {
    expect(there('/containerLogs/shop/web-1/main?tail=7')).toBe('web-1/log?container=main&tailLines=7');
    expect(there('/containerLogs/shop/web-1/main?tailLines=3&tail=all')).toBe('web-1/log?container=main');
  });

  it('for exec brings every word of the command in order, and each stream as yes or no', () => {
    const query = 'command=sh&command=-c&command=echo+%22a%26b%22+%3E%2Fdev%2Fnull&error=1&output=1';
    expect(there(`/exec/shop/web-1/main?${query}`)).toBe(
      'web-1/exec?container=main&command=sh&command=-c&command=echo+%22a%26b%22+%3E%2Fdev%2Fnull' +
        '&stdin=false&stdout=true&stderr=true&tty=false',
    );
    expect(there('/exec/shop/web-1/main?command=sh&input=1&output=1&tty=1')).toBe(
      'web-1/exec?container=main&command=sh&stdin=true&stdout=true&stderr=false&tty=true',
    );
    // A kubelet takes nothing but 1 for yes.
    expect(there('/exec/shop/web-1/main?command=sh&input=true&output=1&tty=false')).toBe(
      'web-1/exec?container=main&command=sh&stdin=false&stdout=true&stderr=false&tty=false',
    );
  });

  it('for attach has no command', () => {
    expect(there('/attach/shop/web-1/main?input=1&output=1&command=sh')).toBe(
      'web-1/attach?container=main&stdin=true&stdout=true&stderr=false&tty=false',
    );
  });

  it('for port-forward names every port', () => {
    expect(there('/portForward/shop/web-1')).toBe('web-1/portforward');
    expect(there('/portForward/shop/web-1?port=80%2C443&port=8080')).toBe(
      'web-1/portforward?ports=80&ports=443&ports=8080',
    );
  });

  it('for run is a command without input', () => {
    expect(there('/run/shop/web-1/main?cmd=ls+-l+%2F')).toBe(
      'web-1/exec?container=main&command=ls&command=-l&command=%2F&stdin=false&stdout=true&stderr=true&tty=false',
    );
  });

  it('may name the UID that the pod has to have', () => {
    const uid = '7c9e6679-7425-40de-944b-e07fc1f90ae7';
    for (const path of [
      `/exec/shop/web-1/${uid}/main`,
      `/attach/shop/web-1/${uid}/main`,
      `/run/shop/web-1/${uid}/main`,
      `/portForward/shop/web-1/${uid}`,
    ]) {
      const request = parseKubeletRequest(path);
      expect(request).toMatchObject({ about: 'pod', pod: { namespace: 'shop', pod: 'web-1', uid } });
    }
    expect(parseKubeletRequest('/exec/shop/web-1/main')).not.toHaveProperty('pod.uid');
  });

  it('takes nothing else of the query along', () => {
    const asked = there('/exec/shop/web-1/main?command=sh&container=other&stdin=true&pretty=1&dryRun=All');
    expect(asked).toBe(
      'web-1/exec?container=main&command=sh&stdin=false&stdout=false&stderr=false&tty=false',
    );
  });
});

describe('a request to a kubelet about something else', () => {
  it('is told from one about a pod, whatever its form', () => {
    for (const path of [
      '/exec/shop/%E0%A4%A/main',
      '/exec/shop/web%2F..%2F..%2Fsecrets/main',
      '/exec/shop/../main',
      '/exec/shop//main',
      '/exec/shop/web-1',
      '/exec/shop/web-1/uid/main/more',
      '/containerLogs/shop/web-1/uid/main',
      '/portForward/shop',
      '/constructor/shop/web',
      '/__proto__/shop/web/main',
      'http://elsewhere/exec/shop/web-1/main/x',
      '//',
      '/%',
      '',
    ]) {
      expect([path, parseKubeletRequest(path).about]).toEqual([path, 'unknown']);
    }
  });

  it('is one about the node where a kubelet would tell of all its pods', () => {
    for (const path of [
      '/pods/shop',
      '/runningpods/',
      '/logs/syslog',
      '/stats/summary/more',
      '/stats',
      '/metrics',
      '/metrics/resource',
      '/metrics/cadvisor',
      '/configz',
      '/debug/pprof/heap',
      '/checkpoint/shop/web-1/main',
    ]) {
      expect([path, parseKubeletRequest(path).about]).toEqual([path, 'node']);
    }
    for (const path of ['/pods', '/pods/', '/pods?x=1'])
      expect(parseKubeletRequest(path)).toEqual({ about: 'node-pods', what: 'pods' });
    expect(parseKubeletRequest('/stats/summary?only_cpu_and_memory=true')).toEqual({
      about: 'node-pods',
      what: 'summary',
    });
    expect(parseKubeletRequest('/healthz').about).toBe('health');
    expect(parseKubeletRequest('/apis/metrics.k8s.io/v1beta1/pods?limit=5').about).toBe('metrics-api');
  });
});

describe('a request line of a mebibyte', () => {
  const mebibyte = (text: string): string => text.repeat((1 << 20) / text.length);

  it.each([
    ['/pods?', 'a&'],
    ['/exec/shop/web-1/main?', '%41&'],
    ['/exec/shop/web-1/main?', 'command=x&'],
    ['/exec/shop/web-1/main?command=', '+'],
    ['/apis/metrics.k8s.io/v1beta1/pods?', '&'],
    ['/run/shop/web-1/main?cmd=', '+'],
    ['/run/shop/web-1/main?cmd=', '%20'],
    ['/portForward/shop/web-1?port=', '1,'],
    ['/portForward/shop/web-1?', 'port=1&'],
  ])('is refused before there is much to parse: %s%s...', (path, text) => {
    using parsing = new Parsing();
    let refused: unknown;
    try {
      there(`${path}${mebibyte(text)}`);
    } catch (error) {
      refused = error;
    }
    expect(refused).toBeInstanceOf(Refusal);
    expect(refused).toMatchObject({ status: 400 });
    expect(Math.max(0, ...parsing.queries)).toBeLessThan(2);
  });

  it.each(['/exec', '/exec/shop/web-1', '/apis', '/pods', ''])(
    'is about nothing when it is a path: %s...',
    (path) => {
      using parsing = new Parsing();
      const request = parseKubeletRequest(`${path}${mebibyte('/a')}?a=b`);
      if (request.about !== 'unknown') throw new Error(`about ${request.about}`);
      expect(request.path.length).toBeLessThan(100);
      expect(parsing).toMatchObject({ queries: [], decoded: 0 });
    },
  );

  it('may hold one word of a command, or thousands', () => {
    for (const word of [mebibyte('x'), 'x+'.repeat(60_000)])
      expect(there(`/exec/shop/web-1/main?command=${word}&output=1`)).toContain(`command=${word}&`);
    const words = Array.from({ length: 4_000 }, (_, index) => `command=${index}`);
    expect(there(`/exec/shop/web-1/main?${words.join('&')}&output=1`)).toContain(`${words.join('&')}&`);
    expect(there(`/run/shop/web-1/main?cmd=${'x+'.repeat(4_000)}`)?.match(/command=x/g)).toHaveLength(4_000);
    const ports = Array.from({ length: 64 }, (_, index) => index + 1);
    expect(there(`/portForward/shop/web-1?port=${ports.join()}`)?.match(/ports=/g)).toHaveLength(64);
  });
});

describe('the node that an API server was asked for', () => {
  it.each([
    ['/api/v1/nodes/node-1/proxy/pods', 'node-1'],
    ['/api/v1/nodes/node-1:10250/proxy/pods', 'node-1'],
    ['/api/v1/nodes/https:node-1:10250/proxy/stats/summary', 'node-1'],
    ['/api/v1/nodes/https:node-1:/proxy/pods', 'node-1'],
    ['/api/v1/nodes/node-1%3A10250/proxy/pods', 'node-1'],
    ['/api/v1/nodes/a/b/proxy/pods', undefined],
    ['/api/v1/nodes/%2e%2e/proxy/pods', undefined],
    ['/api/v1/nodes/%zz/proxy/pods', undefined],
    ['/api/v1/nodes/a:b:c:d/proxy/pods', undefined],
    [`/api/v1/nodes/${'x'.repeat(301)}/proxy/pods`, undefined],
    ['/pods', undefined],
    [undefined, undefined],
  ])('is in what it says that it was asked: %s', (uri, node) => {
    expect(askedNode(uri)).toBe(node);
  });
});
