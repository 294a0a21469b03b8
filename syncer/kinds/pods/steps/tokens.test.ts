import { describe, expect, it } from 'vitest';
import { labelKeys } from '../../../../api/labels.ts';
import { podKind } from '../index.ts';
import { podContext, tenantPod } from '../testing.ts';
import type { Pod, PodSpec, Projection } from '../types.ts';

function superSpec(spec: PodSpec): PodSpec {
  return (podKind.toSuper(tenantPod({ spec }), podContext()) as Pod).spec ?? {};
}

/** As the tenant's admission plugin writes it. */
const access = {
  name: 'kube-api-access-x7k2p',
  projected: {
    defaultMode: 420,
    sources: [
      { serviceAccountToken: { expirationSeconds: 3607, path: 'token' } },
      { configMap: { name: 'kube-root-ca.crt', items: [{ key: 'ca.crt', path: 'ca.crt' }] } },
      {
        downwardAPI: {
          items: [{ path: 'namespace', fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.namespace' } }],
        },
      },
    ],
  },
};

describe('tokens (rule 6)', () => {
  it('never are those of the super cluster, by default, by wish or by projection', () => {
    for (const wish of [true, false, undefined]) {
      const automount = wish === undefined ? {} : { automountServiceAccountToken: wish };
      for (const volumes of [[access], [], undefined]) {
        const spec = superSpec({ ...automount, ...(volumes && { volumes }) });
        expect(spec['automountServiceAccountToken']).toBe(false);
        expect(JSON.stringify(spec)).not.toContain('serviceAccountToken"');
      }
    }
  });

  it('come from a Secret into the volume that every pod gets, beside CA and namespace', () => {
    const mount = {
      name: access.name,
      mountPath: '/var/run/secrets/kubernetes.io/serviceaccount',
      readOnly: true,
    };
    const spec = superSpec({ volumes: [access], containers: [{ name: 'main', volumeMounts: [mount] }] });
    expect(spec.volumes).toEqual([
      {
        name: access.name,
        projected: {
          defaultMode: 420,
          sources: [
            {
              secret: {
                name: 'skerry-token-web',
                items: [{ key: 'token-0', path: 'token' }],
                optional: false,
              },
            },
            { configMap: { name: 'tenant-kube-root-ca.crt', items: [{ key: 'ca.crt', path: 'ca.crt' }] } },
            {
              downwardAPI: {
                items: [
                  {
                    path: 'namespace',
                    fieldRef: { apiVersion: 'v1', fieldPath: `metadata.labels['${labelKeys.namespace}']` },
                  },
                ],
              },
            },
          ],
        },
      },
    ]);
    expect(spec.containers?.[0]?.['volumeMounts']).toEqual([mount]);
  });

  it('are told apart by audience and life, and asked for once where they are the same', () => {
    const token = (path: string, audience: string, expirationSeconds = 3600): Projection => ({
      serviceAccountToken: { path, audience, expirationSeconds },
    });
    const spec = superSpec({
      volumes: [
        { name: 'a', projected: { sources: [token('vault', 'vault'), token('short', 'vault', 600)] } },
        { name: 'b', projected: { sources: [token('deep/vault', 'vault'), { secret: { name: 'own' } }] } },
        { name: 'c', secret: { secretName: 'static' } },
      ],
    });
    const items = spec.volumes?.map(({ projected }) =>
      projected?.sources?.map(({ secret }) => (secret?.['items'] as unknown[] | undefined) ?? secret),
    );
    expect(items).toEqual([
      [[{ key: 'token-0', path: 'vault' }], [{ key: 'token-1', path: 'short' }]],
      [[{ key: 'token-0', path: 'deep/vault' }], { name: 'own' }],
      undefined,
    ]);
    expect(spec.volumes?.[2]).toEqual({ name: 'c', secret: { secretName: 'static' } });
  });

  describe('can be read by whom kubelet gives its own tokens to', () => {
    const modeFor = (spec: PodSpec): unknown => {
      const [source] = superSpec({ ...spec, volumes: [access] }).volumes?.[0]?.projected?.sources ?? [];
      return (source?.secret?.['items'] as { mode?: number }[] | undefined)?.[0]?.mode;
    };
    const containers = (...users: (number | undefined)[]) =>
      users.map((runAsUser, index) => ({
        name: `c${index}`,
        ...(runAsUser === undefined ? {} : { securityContext: { runAsUser } }),
      }));

    it("the group of the pod, to whose Secrets' files kubelet adds the right to read", () => {
      expect(modeFor({ securityContext: { fsGroup: 2000 } })).toBe(0o600);
      expect(modeFor({ securityContext: { fsGroup: 2000, runAsUser: 1000 } })).toBe(0o600);
    });

    it('the one user of all containers: everybody in the pod, as it cannot be made the owner', () => {
      expect(modeFor({ securityContext: { runAsUser: 1000 } })).toBe(0o644);
      expect(modeFor({ containers: containers(1000, 1000) })).toBe(0o644);
      expect(modeFor({ securityContext: { runAsUser: 7 }, containers: containers(1000, 1000) })).toBe(0o644);
      expect(modeFor({ containers: containers(1000), initContainers: containers(1000) })).toBe(0o644);
      expect(modeFor({ securityContext: { runAsUser: 0 } })).toBe(0o600);
    });

    it('and whom the volume says, where there are several users, or the image decides', () => {
      expect(modeFor({})).toBeUndefined();
      expect(modeFor({ containers: containers(1000, 1001) })).toBeUndefined();
      expect(modeFor({ containers: containers(1000, undefined) })).toBeUndefined();
      expect(modeFor({ containers: containers(1000), initContainers: containers(0) })).toBeUndefined();
      expect(modeFor({ securityContext: { runAsUser: 7 }, containers: containers(1000, undefined) })).toBe(
        undefined,
      );
    });
  });
});
