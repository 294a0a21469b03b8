import { deepEqual } from 'fast-equals';
import { type KubeObject, type MergePatch, resources } from '../../../kube/index.ts';
import { staysInTenant, superMetadata, superMetadataPatch, tenantNamespaceOf } from '../../mapping/index.ts';
import type { Action } from '../action.ts';
import type { SyncContext } from '../context.ts';
import type { Admission, DownKind } from '../kind.ts';
import { type EndpointSlice, isApiServerSlice, wantedContent } from './content.ts';

const serviceNameLabel = 'kubernetes.io/service-name';
const managedByLabel = 'endpointslice.kubernetes.io/managed-by';
/** Makes the super cluster's own controllers leave S alone. */
const managedBy = 'syncer.skerry.dev';
/** Writes the slices of Services with a selector, on either side for itself. */
const selectorController = 'endpointslice-controller.k8s.io';

/** EndpointSlice: those of Services without a selector, with the tenant's own pods in them. */
export const endpointSliceKind: DownKind = {
  name: 'endpointslices',
  resource: resources.endpointSlices,
  direction: 'down',
  // The great many that either side's own controllers write are nobody's concern here.
  selector: { tenant: `${managedByLabel}!=${selectorController}`, super: `${managedByLabel}=${managedBy}` },
  indexes: { tenant: { byService, byAddress }, super: { byApiServer } },
  admit,
  toSuper(tenantObject, context) {
    const { addressType, endpoints, ports } = wantedContent(tenantObject, context);
    return {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: superMetadata(relabelled(tenantObject), context),
      addressType,
      endpoints,
      ports,
    };
  },
  down,
};

/** `namespace/name` of the Service, for slices that can go down at all. */
function byService(slice: KubeObject): readonly string[] {
  const service = slice.metadata.labels?.[serviceNameLabel];
  return service === undefined || isSelectorsOwn(slice) ? [] : [`${slice.metadata.namespace}/${service}`];
}

/** Addresses in slices that can go down at all: whether they may depends on the pods that have them. */
function byAddress(slice: KubeObject): readonly string[] {
  if (isSelectorsOwn(slice) || isApiServerSlice(slice)) return [];
  return ((slice as EndpointSlice).endpoints ?? []).flatMap((endpoint) => endpoint.addresses);
}

/** Where tenants' API servers are, by the slices that lead their pods there. */
function byApiServer(slice: KubeObject): readonly string[] {
  if (slice.metadata.name !== 'kubernetes' || tenantNamespaceOf(slice) !== 'default') return [];
  return ((slice as EndpointSlice).endpoints ?? []).flatMap((endpoint) => endpoint.addresses);
}

function isSelectorsOwn(slice: KubeObject): boolean {
  return slice.metadata.labels?.[managedByLabel] === selectorController;
}

function admit(tenantObject: KubeObject, context: SyncContext): Admission {
  if (isApiServerSlice(tenantObject)) return { wanted: !context.tenant.apiServer.isService };
  if (isSelectorsOwn(tenantObject) || staysInTenant(tenantObject)) return { wanted: false };
  const { labels, namespace } = tenantObject.metadata;
  const name = labels?.[serviceNameLabel];
  if (name === undefined || (namespace === 'default' && name === 'kubernetes')) return { wanted: false };
  const service = context.tenantObjects.get(resources.services, { namespace, name });
  const selector = (service?.['spec'] as { selector?: Record<string, string> } | undefined)?.selector;
  if (service === undefined || Object.keys(selector ?? {}).length > 0) return { wanted: false };
  if ((tenantObject as EndpointSlice).addressType === 'FQDN')
    return refusal(['addresses of type FQDN'], false);

  const { endpoints, refused } = wantedContent(tenantObject, context);
  if (refused.length === 0) return { wanted: true };
  return refusal(refused, endpoints.length > 0);
}

/** Endpoints that are the tenant's own pods stay reachable while others are refused. */
function refusal(refused: readonly string[], wanted: boolean): Admission {
  const shown = refused.length > 5 ? [...refused.slice(0, 5), '…'] : refused;
  return {
    wanted,
    notice: {
      type: 'Warning',
      reason: 'EndpointNotAllowed',
      message: `not allowed as endpoints: ${shown.join(', ')}; an endpoint has to be one of your own pods, or an address that this cluster allows (policy: endpointCIDRs)`,
    },
  };
}

function relabelled(tenantObject: KubeObject): KubeObject {
  const labels: Record<string, string> = { ...tenantObject.metadata.labels, [managedByLabel]: managedBy };
  if (isApiServerSlice(tenantObject)) labels[serviceNameLabel] = 'kubernetes';
  return { ...tenantObject, metadata: { ...tenantObject.metadata, labels } };
}

function down(tenantObject: KubeObject, superObject: KubeObject, context: SyncContext): readonly Action[] {
  const wanted = wantedContent(tenantObject, context);
  const there = superObject as EndpointSlice;
  if (there.addressType !== wanted.addressType) return [{ do: 'deleteSuper' }];
  const patch: MergePatch = { ...superMetadataPatch(relabelled(tenantObject), superObject, context) };
  if (!deepEqual(there.endpoints ?? [], wanted.endpoints)) patch['endpoints'] = wanted.endpoints;
  if (!deepEqual(there.ports ?? [], wanted.ports)) patch['ports'] = wanted.ports;
  return Object.keys(patch).length === 0 ? [] : [{ do: 'patchSuper', patch }];
}
