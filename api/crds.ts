import { z } from 'zod';
import type { KubeObject } from '../kube/index.ts';
import { controlPlaneTemplateSpecSchema } from './control-plane-template.ts';
import { labelKeys } from './labels.ts';
import { group, version } from './names.ts';
import { virtualClusterPolicySpecSchema } from './policy.ts';
import { virtualClusterSpecSchema, virtualClusterStatusSchema } from './virtual-cluster.ts';

/** An OpenAPI v3 schema as a CustomResourceDefinition accepts it. */
type StructuralSchema = { [keyword: string]: unknown };

// What apiextensions.k8s.io/v1 knows. Anything else in a schema would be a mistake here.
const keywords = new Set([
  'type',
  'format',
  'description',
  'default',
  'enum',
  'pattern',
  'minLength',
  'maxLength',
  'minimum',
  'maximum',
  'minItems',
  'maxItems',
  'minProperties',
  'maxProperties',
  'required',
  'nullable',
]);

/**
 * The structural schema of a zod schema. Unknown fields are pruned by the API server (and refused under
 * strict field validation, kubectl's default), so strict objects need nothing of their own here.
 * Throws for what a structural schema cannot say, such as unions.
 */
export function structuralSchema(schema: z.ZodType): StructuralSchema {
  return convert(z.toJSONSchema(schema, { target: 'openapi-3.0', io: 'input' }), '');
}

function convert(schema: unknown, path: string): StructuralSchema {
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) {
    throw new Error(`schema of ${path || 'the root'} is not an object`);
  }
  const result: StructuralSchema = {};
  for (const [keyword, value] of Object.entries(schema)) {
    if (keyword === '$schema' || keyword === 'propertyNames') continue;
    if (keyword === 'properties') {
      result['properties'] = Object.fromEntries(
        Object.entries(value as object).map(([name, property]) => [
          name,
          convert(property, `${path}.${name}`),
        ]),
      );
    } else if (keyword === 'items') {
      result['items'] = convert(value, `${path}[]`);
    } else if (keyword === 'additionalProperties') {
      // `false` would contradict pruning and is refused beside `properties`.
      if (value !== false) result['additionalProperties'] = convert(value, `${path}{}`);
    } else if (keyword.startsWith('x-kubernetes-') || keywords.has(keyword)) {
      // zod bounds every integer by what JavaScript can count; a bound that large says nothing.
      if ((keyword === 'minimum' || keyword === 'maximum') && !boundMatters(value)) continue;
      result[keyword] = value;
    } else {
      throw new Error(
        `schema of ${path || 'the root'} uses ${keyword}, which a CustomResourceDefinition does not know`,
      );
    }
  }
  if (result['type'] === 'integer') result['format'] = 'int64';
  return result;
}

function boundMatters(bound: unknown): boolean {
  return typeof bound === 'number' && Math.abs(bound) < Number.MAX_SAFE_INTEGER;
}

interface PrinterColumn {
  name: string;
  type: 'string' | 'integer' | 'date';
  jsonPath: string;
  description: string;
  /** 1: only in wide output. */
  priority?: number;
}

interface CrdOptions {
  kind: string;
  plural: string;
  scope: 'Namespaced' | 'Cluster';
  shortNames: string[];
  schema: StructuralSchema;
  columns: PrinterColumn[];
  status: boolean;
}

// A name becomes a label value and part of Secret names, so it must be a DNS label.
const nameIsLabel = [
  {
    rule: "self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
    message: "metadata.name must be a DNS label: at most 63 lower case letters, digits and '-'",
  },
];

const isNewVersion =
  'has(self.spec.version) && !(has(oldSelf.spec.version) && self.spec.version == oldSelf.spec.version)';
const hasRun = 'has(self.status) && has(self.status.version)';

// CEL: what has run is the floor, for the datastore holds what it wrote. Back to it is no downgrade: it is how to
// leave a new version that has never been ready.
const neverDowngraded = [
  {
    rule:
      `!(${isNewVersion} && ${hasRun}) || ` +
      "int(self.spec.version.split('.')[1]) >= int(self.status.version.split('.')[1])",
    message: 'a control plane cannot be downgraded to an earlier minor version than the one that has run',
  },
  {
    rule:
      `!(${isNewVersion} && ${hasRun}) || self.spec.version.split('.').size() < 3 || ` +
      "int(self.spec.version.split('.')[1]) > int(self.status.version.split('.')[1]) || " +
      "int(self.spec.version.split('.')[2]) >= int(self.status.version.split('.')[2])",
    message: 'a control plane cannot be downgraded to an earlier patch version than the one that has run',
  },
];

/** A field's own rule does not run when the field is taken away. */
const neverRemoved = ['restoreFrom', 'restoreCertificates'].map((field) => ({
  rule: `!has(oldSelf.spec.${field}) || has(self.spec.${field})`,
  message: `spec.${field} cannot be removed once it is set`,
}));

let manifests: readonly KubeObject[] | undefined;

/** The CustomResourceDefinitions of Skerry, made from the same schemas as the types; the same objects at each call. */
export function crdManifests(): readonly KubeObject[] {
  manifests ??= [virtualClusterCrd(), virtualClusterPolicyCrd(), controlPlaneTemplateCrd()];
  return manifests;
}

function virtualClusterCrd(): KubeObject {
  return crd({
    kind: 'VirtualCluster',
    plural: 'virtualclusters',
    scope: 'Namespaced',
    shortNames: ['vc'],
    status: true,
    schema: {
      type: 'object',
      description: 'A tenant control plane of its own whose pods, services and volumes live in this cluster.',
      'x-kubernetes-validations': [...nameIsLabel, ...neverDowngraded, ...neverRemoved],
      properties: {
        apiVersion: { type: 'string' },
        kind: { type: 'string' },
        metadata: { type: 'object' },
        spec: { ...structuralSchema(virtualClusterSpecSchema), default: {} },
        status: structuralSchema(virtualClusterStatusSchema),
      },
    },
    columns: [
      {
        name: 'Phase',
        type: 'string',
        jsonPath: '.status.phase',
        description: 'What the control plane is doing',
      },
      { name: 'Version', type: 'string', jsonPath: '.status.version', description: 'Kubernetes version' },
      { name: 'Pods', type: 'integer', jsonPath: '.status.usage.pods', description: 'Pods of the tenant' },
      age,
      wide('Endpoint', '.status.endpoint', 'Where people reach the API server'),
      wide('Id', '.status.id', 'Root of all names of this control plane'),
      wide('Services', '.status.serviceCIDR', "Range of the tenant's service addresses"),
      wide(
        'Message',
        '.status.conditions[?(@.type=="Ready")].message',
        'What is happening, or what is wrong',
      ),
    ],
  });
}

function virtualClusterPolicyCrd(): KubeObject {
  return crd({
    kind: 'VirtualClusterPolicy',
    plural: 'virtualclusterpolicies',
    scope: 'Cluster',
    shortNames: ['vcpolicy'],
    status: false,
    schema: {
      type: 'object',
      description: 'The most that VirtualClusters of some namespaces may ask for.',
      required: ['spec'],
      properties: {
        apiVersion: { type: 'string' },
        kind: { type: 'string' },
        metadata: { type: 'object' },
        spec: structuralSchema(virtualClusterPolicySpecSchema),
      },
    },
    columns: [
      column('Namespaces', '.spec.namespaces', 'Whose VirtualClusters are limited'),
      column('Pod Security', '.spec.podSecurity', 'The least strict level to be had'),
      column('DaemonSets', '.spec.daemonSets', 'Whether pods of DaemonSets may be asked for'),
      age,
      wide('Nodes', '.spec.nodeSelector', 'Labels of the nodes that tenants are kept to'),
      wide('Templates', '.spec.templates', 'ControlPlaneTemplates to choose from'),
    ],
  });
}

function controlPlaneTemplateCrd(): KubeObject {
  return crd({
    kind: 'ControlPlaneTemplate',
    plural: 'controlplanetemplates',
    scope: 'Cluster',
    shortNames: ['cpt'],
    status: false,
    schema: {
      type: 'object',
      description: 'What a tenant control plane is made of: components, flags, files, ports and probes.',
      required: ['spec'],
      properties: {
        apiVersion: { type: 'string' },
        kind: { type: 'string' },
        metadata: { type: 'object' },
        spec: structuralSchema(controlPlaneTemplateSpecSchema),
      },
    },
    columns: [
      {
        name: 'Version',
        type: 'string',
        jsonPath: '.spec.kubernetesVersion',
        description: 'Kubernetes version',
      },
      age,
    ],
  });
}

const age: PrinterColumn = {
  name: 'Age',
  type: 'date',
  jsonPath: '.metadata.creationTimestamp',
  description: 'Time since creation',
};

function column(name: string, jsonPath: string, description: string): PrinterColumn {
  return { name, type: 'string', jsonPath, description };
}

function wide(name: string, jsonPath: string, description: string): PrinterColumn {
  return { ...column(name, jsonPath, description), priority: 1 };
}

function crd(options: CrdOptions): KubeObject {
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${options.plural}.${group}`, labels: { [labelKeys.managedBy]: 'skerry' } },
    spec: {
      group,
      scope: options.scope,
      names: {
        kind: options.kind,
        listKind: `${options.kind}List`,
        plural: options.plural,
        singular: options.kind.toLowerCase(),
        shortNames: options.shortNames,
        categories: ['skerry'],
      },
      conversion: { strategy: 'None' },
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          schema: { openAPIV3Schema: options.schema },
          subresources: options.status ? { status: {} } : undefined,
          additionalPrinterColumns: options.columns,
        },
      ],
    },
  };
}
