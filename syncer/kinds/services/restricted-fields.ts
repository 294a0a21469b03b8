import { deepEqual } from 'fast-equals';
import type { TenantPolicy } from '../../../api/policy.ts';
import type { KubeObject, MergePatch } from '../../../kube/index.ts';
import type { TenantInfo } from '../../context.ts';
import { annotationGoesDown } from '../../mapping/metadata.ts';
import { addressAnnotations, type ServiceSpec, sourceRangesAnnotation, specOf } from './types.ts';

/**
 * Annotation on the super object: fields of which the tenant object has given the value. It tells a value that has to
 * go with the tenant object's from one that a controller of the super cluster has written.
 */
export const restrictedFieldsAnnotation = 'skerry.dev/options';

/**
 * What a Service may ask for by policy only, as it acts on more than the tenant's own traffic (sync rule `cluster-ip`).
 */
const optionalFields = ['externalIPs', 'loadBalancerIP', 'loadBalancerSourceRanges'] as const;

type Options = Pick<ServiceSpec, (typeof optionalFields)[number]>;

function isAllowed(field: (typeof optionalFields)[number], policy: TenantPolicy): boolean {
  return field === 'externalIPs' ? policy.externalIPs : policy.loadBalancerOptions;
}

/**
 * Which of the super cluster's load balancers a Service asks for, where it may. Nothing changes that of a Service that is
 * there, so it is none of the fields that are taken away.
 */
export function allowedClass(own: ServiceSpec, policy: TenantPolicy): Pick<ServiceSpec, 'loadBalancerClass'> {
  const { loadBalancerClass } = own;
  return policy.loadBalancerOptions && loadBalancerClass !== undefined ? { loadBalancerClass } : {};
}

/** What the tenant object asks for and may have. */
export function allowedRestrictedFields(tenantObject: KubeObject, policy: TenantPolicy): Options {
  const own = specOf(tenantObject);
  return Object.fromEntries(
    optionalFields
      .filter((field) => isAllowed(field, policy) && isAsked(own[field]))
      .map((field) => [field, own[field]]),
  );
}

/**
 * What the tenant object asks for and may not have, by the names of the fields, and of annotations where there is no
 * field.
 */
export function droppedFields(tenantObject: KubeObject, policy: TenantPolicy): readonly string[] {
  const own = specOf(tenantObject);
  const { annotations = {} } = tenantObject.metadata;
  const annotated = annotations[sourceRangesAnnotation] !== undefined;
  const fields: string[] = optionalFields.filter(
    (field) =>
      !isAllowed(field, policy) &&
      (isAsked(own[field]) || (field === 'loadBalancerSourceRanges' && annotated)),
  );
  if (policy.loadBalancerOptions) return fields;
  const keys = Object.keys(annotations).filter((key) => addressAnnotations.has(key));
  return [...fields, ...keys];
}

/** Whether an annotation of a Service goes down; those that stand for fields go by the policy of those fields. */
export function serviceAnnotationGoesDown(key: string, tenant: TenantInfo): boolean {
  if (key === sourceRangesAnnotation || addressAnnotations.has(key)) return tenant.policy.loadBalancerOptions;
  return annotationGoesDown(key, tenant);
}

/** The tenant object without the annotations that say the same as fields that are dropped. */
export function withoutDropped(tenantObject: KubeObject, policy: TenantPolicy): KubeObject {
  const { annotations } = tenantObject.metadata;
  if (policy.loadBalancerOptions || annotations === undefined) return tenantObject;
  const kept = Object.entries(annotations).filter(
    ([key]) => key !== sourceRangesAnnotation && !addressAnnotations.has(key),
  );
  if (kept.length === Object.keys(annotations).length) return tenantObject;
  return { ...tenantObject, metadata: { ...tenantObject.metadata, annotations: Object.fromEntries(kept) } };
}

/** The value of the mark; undefined: the tenant object has given none. */
export function restrictedFieldsDigest(options: Options): string | undefined {
  const given = optionalFields.filter((field) => options[field] !== undefined);
  return given.length === 0 ? undefined : given.join(',');
}

/**
 * Brings the super object's options to what the tenant object may have; those that the super cluster has chosen itself
 * stay.
 */
export function restrictedFieldsPatch(wanted: Options, superObject: KubeObject): MergePatch {
  const there = specOf(superObject);
  const given = (superObject.metadata.annotations?.[restrictedFieldsAnnotation] ?? '').split(',');
  const patch: MergePatch = {};
  for (const field of optionalFields) {
    if (wanted[field] !== undefined) {
      if (!deepEqual(wanted[field], there[field])) patch[field] = wanted[field];
    } else if (given.includes(field) && there[field] !== undefined) patch[field] = null;
  }
  return patch;
}

/** Takes away options that a tenant object has given and that the policy does not allow. */
export function refusedOptionsPatch(superObject: KubeObject, policy: TenantPolicy): MergePatch {
  const there = specOf(superObject);
  const given = (superObject.metadata.annotations?.[restrictedFieldsAnnotation] ?? '').split(',');
  const refused = optionalFields.filter(
    (field) => given.includes(field) && !isAllowed(field, policy) && there[field] !== undefined,
  );
  return Object.fromEntries(refused.map((field) => [field, null]));
}

function isAsked(value: string | readonly string[] | undefined): boolean {
  return value !== undefined && value.length > 0;
}
