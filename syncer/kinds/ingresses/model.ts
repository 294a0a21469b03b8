import type { KubeObject } from '../../../kube/index.ts';
import type { Shape } from '../known-fields.ts';

export interface Backend {
  service?: { name: string; port?: { name?: string; number?: number } };
  resource?: unknown;
}

export interface IngressRule {
  host?: string;
  http?: { paths?: { path?: string; pathType?: string; backend: Backend }[] };
}

export interface IngressTls {
  hosts?: string[];
  secretName?: string;
}

export interface IngressSpec {
  ingressClassName?: string;
  defaultBackend?: Backend;
  tls?: IngressTls[];
  rules?: IngressRule[];
}

export interface Ingress extends KubeObject {
  spec?: IngressSpec;
  status?: { loadBalancer?: Record<string, unknown> };
}

/** What goes down; `backend.resource` and `defaultBackend` do not, and are refused by name. */
export const specShape: Shape = {
  ingressClassName: true,
  defaultBackend: true,
  tls: [{ hosts: true, secretName: true }],
  rules: [
    {
      host: true,
      http: {
        paths: [
          {
            path: true,
            pathType: true,
            backend: { service: { name: true, port: { name: true, number: true } }, resource: true },
          },
        ],
      },
    },
  ],
};

/** How an Ingress named its class before there was a field for it. */
export const classAnnotation = 'kubernetes.io/ingress.class';

export function specOf(ingress: KubeObject): IngressSpec {
  return (ingress as Ingress).spec ?? {};
}

export function classOf(ingress: KubeObject): string | undefined {
  return specOf(ingress).ingressClassName ?? ingress.metadata.annotations?.[classAnnotation];
}

export function backendsOf({ defaultBackend, rules = [] }: IngressSpec): Backend[] {
  const backends = rules.flatMap(({ http }) => (http?.paths ?? []).map(({ backend }) => backend));
  return defaultBackend === undefined ? backends : [defaultBackend, ...backends];
}

/** Names of the Services that it leads to, each once. */
export function servicesOf(ingress: KubeObject): string[] {
  return unique(backendsOf(specOf(ingress)).map(({ service }) => service?.name));
}

/** Names of the Secrets that hold its certificates, each once. */
export function secretsOf(ingress: KubeObject): string[] {
  return unique((specOf(ingress).tls ?? []).map(({ secretName }) => secretName));
}

function unique(names: readonly (string | undefined)[]): string[] {
  return [...new Set(names.filter((name): name is string => name !== undefined && name !== ''))];
}
