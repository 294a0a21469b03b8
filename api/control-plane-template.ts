import { z } from 'zod';
import { apiVersion } from './names.ts';

const flags = z.record(z.string(), z.string());

const componentSchema = z.strictObject({
  name: z.string().regex(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/),
  binary: z.enum(['kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'etcd']),
  /** Version of the binary; the template's Kubernetes version when absent. */
  version: z.string().optional(),
  /** Flag (without dashes) to value. */
  args: flags,
  featureGates: z.record(z.string(), z.boolean()).optional(),
  /** Becomes `--controllers`. */
  controllers: z.array(z.string()).optional(),
  env: flags.optional(),
  /** File name to content, for configuration that has no flag. */
  files: flags.optional(),
  /** Names of the ports that the component listens on; the numbers are handed out per control plane. */
  ports: z.array(z.string()).optional(),
  probe: z
    .strictObject({
      scheme: z.enum(['https', 'http']),
      port: z.string(),
      path: z.string().startsWith('/'),
      caFile: z.string().optional(),
      timeoutSeconds: z.int().min(1).max(3600),
    })
    .optional(),
  dependsOn: z.array(z.string()).optional(),
  stopTimeoutSeconds: z.int().min(1).max(600),
  /** How many of it run at once where the driver can; by default what the manager is set to. Ignored with `data`. */
  replicas: z.int().min(1).max(9).optional(),
  /** Flags that replace those in `args` when more than one run. */
  argsWhenReplicated: flags.optional(),
  /** What one of it asks the super cluster for, where it runs there. */
  resources: z.strictObject({ requests: flags.optional(), limits: flags.optional() }).optional(),
  /** What it writes to `${data}` has to outlive it; there is then one of it. */
  data: z.boolean().optional(),
});

/**
 * `spec` of a ControlPlaneTemplate. Values may contain placeholders: `${id}`, `${serviceCIDR}`,
 * `${clusterDomain}`, `${bindAddress}`, `${bindHost}` (the same as it stands in a URL), `${advertiseAddress}`,
 * `${etcdEndpoint}`, `${podSecurity}` (the tenant's level), `${encryptionProviders}` (of an EncryptionConfiguration), `${authorizers}` (of an
 * AuthorizationConfiguration), `${port:NAME}`, `${file:NAME}` (a credential or a file of the component, written beside it only if referred to),
 * and the driver's own `${files}` and `${data}`.
 */
export const controlPlaneTemplateSpecSchema = z.strictObject({
  /** Exact version, such as 1.36.3. */
  kubernetesVersion: z.string().regex(/^\d+\.\d+\.\d+$/),
  /**
   * `shared`, the default: a prefix of the manager's etcd. `own`: an etcd among the components, which only a driver
   * can carry out that gives control planes addresses of their own.
   */
  datastore: z.enum(['shared', 'own']).optional(),
  /** How many control planes of it wait for an owner; what the manager is set to for its default one when absent. */
  warm: z.int().min(0).max(100).optional(),
  components: z.array(componentSchema).min(1),
  /**
   * Name to the objects of an addon that may be installed into the tenant, as YAML. In a file beside other
   * files the path of one of them, which is read in its stead.
   */
  addons: z.record(z.string(), z.string()).optional(),
});

export type ControlPlaneTemplateSpec = z.infer<typeof controlPlaneTemplateSpecSchema>;
export type TemplateComponent = ControlPlaneTemplateSpec['components'][number];

export const controlPlaneTemplateSchema = z.looseObject({
  apiVersion: z.literal(apiVersion),
  kind: z.literal('ControlPlaneTemplate'),
  metadata: z.looseObject({ name: z.string() }),
  spec: controlPlaneTemplateSpecSchema,
});

/** A ControlPlaneTemplate object: cluster-scoped, edited by the operator of the super cluster. */
export type ControlPlaneTemplate = z.infer<typeof controlPlaneTemplateSchema>;
