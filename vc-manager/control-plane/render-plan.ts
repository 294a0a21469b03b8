import type { ControlPlaneTemplateSpec, TemplateComponent } from '../../api/control-plane-template.ts';
import { labelKeys } from '../../api/labels.ts';
import type { PodSecurityLevel } from '../../api/policy.ts';
import { renderKubeconfig } from '../../kube/index.ts';
import { hostInUrl } from '../../program/addresses.ts';
import { type EncryptionState, encryptionProviders, type TenantPki } from '../pki/index.ts';
import { authorizers, noWebhookFile, noWebhookKubeconfig, type WriteStop } from './authorizers.ts';
import {
  type ComponentPlan,
  type ControlPlanePlan,
  type PlanFile,
  type PlanNetwork,
  type PlanResources,
  validatePlan,
} from './plan.ts';
import { unknownPlaceholder } from './template.ts';

/** The address at which a server bound to `bindAddress` is reached from its own machine. */
export function localAddress(bindAddress: string): string {
  if (bindAddress === '0.0.0.0') return '127.0.0.1';
  return bindAddress === '::' ? '::1' : bindAddress;
}

/** Everything that `${file:NAME}` in a template may refer to, made when it is asked for. */
function credentialFiles(options: RenderPlanOptions): Record<string, () => string> {
  const { pki } = options;
  return {
    'client-ca.crt': () => pki.trust.clientCa,
    // The one that signs: kube-controller-manager takes no bundle for it.
    'client-signing-ca.crt': () => pki.clientCa.certPem,
    'client-ca.key': () => pki.clientCa.keyPem,
    'serving-ca.crt': () => pki.trust.servingCa,
    'front-proxy-ca.crt': () => pki.trust.frontProxyCa,
    'etcd-ca.crt': () => pki.etcdCa?.certPem ?? options.etcdCa,
    'kubelet-ca.crt': () => options.kubeletCa,
    'apiserver.crt': () => pki.leafs.apiserver.certPem,
    'apiserver.key': () => pki.leafs.apiserver.keyPem,
    'kubelet-client.crt': () => pki.leafs.kubeletClient.certPem,
    'kubelet-client.key': () => pki.leafs.kubeletClient.keyPem,
    'front-proxy-client.crt': () => pki.leafs.frontProxyClient.certPem,
    'front-proxy-client.key': () => pki.leafs.frontProxyClient.keyPem,
    'etcd-client.crt': () => pki.leafs.etcdClient.certPem,
    'etcd-client.key': () => pki.leafs.etcdClient.keyPem,
    ...ofOwnDatastore(options),
    'service-account.pub': () => pki.trust.serviceAccountKeys,
    'service-account.key': () => pki.serviceAccountKey.privatePem,
    'controller-manager.kubeconfig': () => controllerManagerKubeconfig(options),
    [noWebhookFile]: () => noWebhookKubeconfig,
  };
}

/** Only where there is one. */
function ofOwnDatastore({ pki }: RenderPlanOptions): Record<string, () => string> {
  const { etcdServer } = pki.leafs;
  if (etcdServer === undefined) return {};
  return { 'etcd-server.crt': () => etcdServer.certPem, 'etcd-server.key': () => etcdServer.keyPem };
}

function controllerManagerKubeconfig(options: RenderPlanOptions): string {
  const { host, port } = options.apiServer ?? {
    host: localAddress(options.bindAddress),
    port: options.ports['kube-apiserver'],
  };
  const { certPem, keyPem } = options.pki.leafs.controllerManager;
  return renderKubeconfig({
    clusterName: options.id,
    server: `https://${hostInUrl(host)}:${port}`,
    ca: options.pki.trust.servingCa,
    user: 'system:kube-controller-manager',
    cert: certPem,
    key: keyPem,
  });
}

export interface RenderPlanOptions {
  /** Root of all names of this control plane. */
  id: string;
  template: ControlPlaneTemplateSpec;
  /** Exact Kubernetes version, at the template's minor. */
  version: string;
  serviceCIDR: string;
  clusterDomain: string;
  /** Numbers for the port names of the template. */
  ports: Record<string, number>;
  bindAddress: string;
  /** The same for components that keep data, which no client outside of the control plane asks. Default: `bindAddress`. */
  dataBindAddress?: string | undefined;
  /** Where pods and other machines reach the API server; never loopback. */
  advertiseAddress: string;
  etcd: { endpoint: string };
  pki: TenantPki;
  /** Authority of etcd's serving certificate. */
  etcdCa: string;
  /** Authority of the kubelet proxy's serving certificate. */
  kubeletCa: string;
  /** What Secrets are encrypted with in the datastore. */
  encryption: EncryptionState;
  /** Default: none. */
  writeStop?: WriteStop;
  /** Level below which people are warned that pods will be refused; `baseline` by default. */
  podSecurity?: PodSecurityLevel | undefined;
  /** Per component, flags that replace or (with null) remove those of the template. */
  extraArgs?: Record<string, Record<string, string | null>>;
  labels?: Record<string, string>;
  /** Where the other components reach the API server. Default: on the machine that they share with it. */
  apiServer?: { host: string; port: number };
  /** How many there are of each component whose template does not say. Default: one. */
  replicas?: number;
  /** Of the tenant, beside others. */
  weight?: number;
  network?: PlanNetwork;
}

/**
 * The plan of one control plane. Pure: equal options give equal plans, in whatever order the
 * template's maps were read. Throws `UnknownPlaceholder` or `InvalidPlan`.
 */
export function renderPlan(options: RenderPlanOptions): ControlPlanePlan {
  const plan: ControlPlanePlan = {
    id: options.id,
    labels: { [labelKeys.id]: options.id, ...options.labels },
    components: options.template.components.map((component) => renderComponent(component, options)),
    ...(options.weight === undefined ? {} : { weight: options.weight }),
    ...(options.network === undefined ? {} : { network: options.network }),
  };
  validatePlan(plan);
  return plan;
}

function renderComponent(component: TemplateComponent, options: RenderPlanOptions): ComponentPlan {
  const fill = new Filler(component, options);
  // Several of one that keeps data would have to know of each other.
  const replicas = component.data ? 1 : (component.replicas ?? options.replicas ?? 1);
  const args = { ...component.args, ...(replicas > 1 ? component.argsWhenReplicated : {}) };
  if (component.featureGates !== undefined) {
    args['feature-gates'] = sorted(component.featureGates)
      .map(([gate, on]) => `${gate}=${on}`)
      .join(',');
  }
  if (component.controllers !== undefined) args['controllers'] = component.controllers.join(',');
  const extra = options.extraArgs?.[component.name] ?? {};
  const rendered = sorted<string | null>({ ...args, ...extra })
    .filter((entry): entry is [string, string] => entry[1] !== null)
    .map(([flag, value]) => `--${flag}=${fill.text(value, `flag --${flag}`)}`);
  const env = Object.fromEntries(
    sorted(component.env ?? {}).map(([name, value]) => [name, fill.text(value, `variable ${name}`)]),
  );
  const bindAddress = bindAddressOf(component, options);
  const host = localAddress(bindAddress);
  const ports = (component.ports ?? []).map((name) => ({
    name,
    port: fill.port(name),
    host: bindAddress,
  }));
  const plan: ComponentPlan = {
    name: component.name,
    binary: { name: component.binary, version: component.version ?? options.version },
    args: rendered,
    env,
    files: [],
    ports,
    dependsOn: component.dependsOn ?? [],
    stopTimeoutMs: component.stopTimeoutSeconds * 1000,
    ...(replicas > 1 ? { replicas } : {}),
    ...(component.resources === undefined ? {} : { resources: compact(component.resources) }),
    ...(component.data ? { data: true } : {}),
  };
  const { probe } = component;
  if (probe !== undefined) {
    if (probe.caFile !== undefined) fill.file(probe.caFile, `file:${probe.caFile}`, 'the probe');
    plan.probe = {
      scheme: probe.scheme,
      host,
      port: fill.port(probe.port),
      path: probe.path,
      ...(probe.caFile === undefined ? {} : { caFile: probe.caFile }),
      timeoutMs: probe.timeoutSeconds * 1000,
    };
  }
  plan.files = fill.files();
  return plan;
}

function bindAddressOf({ data }: TemplateComponent, options: RenderPlanOptions): string {
  return (data ? options.dataBindAddress : undefined) ?? options.bindAddress;
}

/** Fills the placeholders of one component in and remembers which files they refer to. */
class Filler {
  readonly #component: TemplateComponent;
  readonly #ports: Record<string, number>;
  readonly #values: Record<string, string>;
  readonly #writeStop: WriteStop;
  readonly #controllerManager: string;
  readonly #credentials: Record<string, () => string>;
  readonly #used = new Map<string, PlanFile>();

  constructor(component: TemplateComponent, options: RenderPlanOptions) {
    this.#component = component;
    this.#ports = options.ports;
    this.#credentials = credentialFiles(options);
    this.#writeStop = options.writeStop ?? 'none';
    this.#controllerManager = options.pki.leafs.controllerManager.certPem;
    this.#values = {
      id: options.id,
      serviceCIDR: options.serviceCIDR,
      clusterDomain: options.clusterDomain,
      bindAddress: bindAddressOf(component, options),
      bindHost: hostInUrl(bindAddressOf(component, options)),
      advertiseAddress: options.advertiseAddress,
      etcdEndpoint: options.etcd.endpoint,
      podSecurity: options.podSecurity ?? 'baseline',
      encryptionProviders: encryptionProviders(options.encryption),
      files: '${files}',
      data: '${data}',
    };
  }

  text(template: string, where: string): string {
    return template.replaceAll(/\$\{([^}]*)\}/g, (_match, placeholder: string) => {
      if (placeholder.startsWith('file:')) return this.file(placeholder.slice(5), placeholder, where);
      if (placeholder.startsWith('port:')) return String(this.port(placeholder.slice(5)));
      const value = placeholder === 'authorizers' ? this.#authorizers(where) : this.#values[placeholder];
      if (value === undefined) throw unknownPlaceholder(this.#component.name, where, placeholder);
      return value;
    });
  }

  #authorizers(where: string): string {
    return authorizers(this.#writeStop, {
      kubeConfigFile: this.file(noWebhookFile, 'authorizers', where),
      controllerManager: this.#controllerManager,
    });
  }

  port(name: string): number {
    const port = this.#ports[name];
    if (port === undefined) throw unknownPlaceholder(this.#component.name, 'a port', `port:${name}`);
    return port;
  }

  /** Adds the file to the component and answers where the component finds it. */
  file(name: string, placeholder: string, where: string): string {
    if (!this.#used.has(name)) {
      const own = this.#component.files?.[name];
      const content = own === undefined ? this.#credentials[name]?.() : this.text(own, `file ${name}`);
      if (content === undefined) throw unknownPlaceholder(this.#component.name, where, placeholder);
      this.#used.set(name, { path: name, content, mode: 0o600 });
    }
    return `\${files}/${name}`;
  }

  files(): PlanFile[] {
    return [...this.#used.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
  }
}

/** Without what zod has left undefined. */
function compact({ requests, limits }: NonNullable<TemplateComponent['resources']>): PlanResources {
  return { ...(requests && { requests }), ...(limits && { limits }) };
}

function sorted<T>(map: Record<string, T>): [string, T][] {
  return Object.entries(map).sort(([a], [b]) => (a < b ? -1 : 1));
}
