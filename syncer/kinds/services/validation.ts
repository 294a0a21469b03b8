import { isIP } from 'node:net';
import { deepEqual } from 'fast-equals';
import { isRecord, shapeProblems } from '../../../kube/index.ts';
import type { SyncContext, TenantInfo } from '../../context.ts';
import { labelGoesDown } from '../../mapping/metadata.ts';
import type { Notice, SuperWrite } from '../contract.ts';
import {
  type KeyRules,
  shapeRefusal,
  unexpectedFields,
  validateCreatedMetadata,
  validatePatchedMetadata,
  warning,
} from '../validation.ts';
import { serviceAnnotationGoesDown } from './restricted-fields.ts';
import { allInCidrs, type ServiceSpec } from './types.ts';

const types = new Set(['ClusterIP', 'NodePort', 'LoadBalancer', 'ExternalName']);
const families = new Set(['IPv4', 'IPv6']);
const familyPolicies = new Set(['SingleStack', 'PreferDualStack', 'RequireDualStack']);

/** Why a Service is not sent as it is; undefined: it may be (sync rule `validated-writes`). Pure; throws nothing. */
export function validateService(write: SuperWrite, context: SyncContext): Notice | undefined {
  const { tenant } = context;
  const rules: KeyRules = {
    label: (key) => labelGoesDown(key, tenant),
    annotation: (key) => serviceAnnotationGoesDown(key, tenant),
  };
  if ('creates' in write) {
    const { creates } = write;
    return (
      unexpectedFields(creates, '', ['apiVersion', 'kind', 'metadata', 'spec']) ??
      validateCreatedMetadata(creates.metadata, rules, context) ??
      shapeRefusal(shapeProblems(creates['spec'], 'ServiceSpec', { path: 'spec' })) ??
      validateSpec(creates['spec'] as ServiceSpec, tenant)
    );
  }
  const { patch, patches, subresource } = write;
  if (subresource !== undefined) return warning('UnknownField', `${subresource} of a Service is not written`);
  const { metadata, spec } = patch;
  return (
    unexpectedFields(patch, '', ['metadata', 'spec']) ??
    (metadata === undefined ? undefined : validatePatchedMetadata(metadata, rules)) ??
    (spec === undefined ? undefined : validatePatchedSpec(spec, patches['spec'], tenant))
  );
}

function validatePatchedSpec(spec: unknown, present: unknown, tenant: TenantInfo): Notice | undefined {
  const shape = shapeProblems(spec, 'ServiceSpec', { path: 'spec', present, isPatch: true });
  if (shape.length > 0 || !isRecord(spec)) return shapeRefusal(shape);
  const there = isRecord(present) ? present : {};
  const changed = Object.entries(spec).filter(
    ([field, value]) => value !== null && !deepEqual(value, there[field]),
  );
  return validateSpec(Object.fromEntries(changed), tenant);
}

/** Of a spec that has the shape of one, or of the fields that a patch sets. */
function validateSpec(spec: ServiceSpec, tenant: TenantInfo): Notice | undefined {
  const { policy } = tenant;
  if (spec.type !== undefined && !types.has(spec.type))
    return warning('InvalidField', 'spec.type is none that Kubernetes has');
  if (spec.externalIPs !== undefined && !policy.externalIPs)
    return warning('NotSupported', 'spec.externalIPs is not allowed in this cluster (policy: externalIPs)');
  for (const field of ['loadBalancerIP', 'loadBalancerSourceRanges', 'loadBalancerClass'] as const)
    if (spec[field] !== undefined && !policy.loadBalancerOptions)
      return warning(
        'NotSupported',
        `spec.${field} is not allowed in this cluster (policy: loadBalancerOptions)`,
      );
  return validateAddresses(spec, tenant);
}

function validateAddresses(spec: ServiceSpec, tenant: TenantInfo): Notice | undefined {
  const { clusterIP = '', clusterIPs, ipFamilies = [], ipFamilyPolicy } = spec;
  const addresses = clusterIPs ?? (clusterIP === '' ? [] : [clusterIP]);
  if ((clusterIPs !== undefined || clusterIP !== '') && addresses[0] !== clusterIP)
    return warning('InvalidField', 'spec.clusterIPs does not begin with spec.clusterIP');
  if (ipFamilies.length > 2 || new Set(ipFamilies).size < ipFamilies.length)
    return warning('InvalidField', 'spec.ipFamilies names one of the two families twice');
  if (!ipFamilies.every((family) => families.has(family)))
    return warning('InvalidField', 'spec.ipFamilies are none that Kubernetes has');
  if (ipFamilyPolicy !== undefined && !familyPolicies.has(ipFamilyPolicy))
    return warning('InvalidField', 'spec.ipFamilyPolicy is none that Kubernetes has');
  if (addresses.length === 0 || (addresses.length === 1 && clusterIP === 'None')) return undefined;
  if (addresses.length > 2) return warning('InvalidField', 'spec.clusterIPs are more than two');
  if (tenant.serviceIpMode !== 'slice' || !allInCidrs(addresses, tenant.serviceCidrs))
    return warning(
      'ClusterIPNotAllowed',
      `cluster IP ${addresses.join(', ')} is not in this cluster's own range`,
    );
  const found = addresses.map((address) => (isIP(address) === 6 ? 'IPv6' : 'IPv4'));
  if (new Set(found).size < found.length)
    return warning('InvalidField', 'spec.clusterIPs are two of one family');
  if (ipFamilies.length > 0 && found.some((family, index) => (ipFamilies[index] ?? family) !== family))
    return warning('InvalidField', 'spec.ipFamilies are not those of spec.clusterIPs');
  return undefined;
}
