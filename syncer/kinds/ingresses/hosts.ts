import type { IngressSpec } from './model.ts';

/** Host names that are claimed by a rule or a certificate and not allowed; an empty one is every host. */
export function hostsNotAllowed({ rules = [], tls = [] }: IngressSpec, allowed: readonly string[]): string[] {
  const claimed = [...rules.map(({ host = '' }) => host), ...tls.flatMap(({ hosts = [] }) => hosts)];
  return [...new Set(claimed)].filter((host) => !covers(allowed, host.toLowerCase()));
}

/** `*.example.com` allows every name below it, however deep, and that wildcard itself; not `example.com`. */
function covers(allowed: readonly string[], host: string): boolean {
  return allowed.some((entry) => {
    const pattern = entry.toLowerCase();
    if (!pattern.startsWith('*.')) return host !== '' && host === pattern;
    return host.endsWith(pattern.slice(1)) && host.length >= pattern.length;
  });
}
