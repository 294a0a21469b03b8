export { bucketCount, bucketOf } from './bucket.ts';
export { copyMetadata } from './copy.ts';
export { defaultDeniedKeyPrefixes, goesDown, isTransparent, namespaceAllowedKeys } from './keys.ts';
export { isOurs, staysInTenant, tenantNamespaceOf, tenantUidOf, uidMark } from './marks.ts';
export { type SuperMetadataOptions, superMetadata, superMetadataPatch } from './metadata.ts';
export { rootCaName, superNamespaceName, superRootCaName } from './names.ts';
export {
  isMirroredNamespaceLabel,
  mirroredNamespaceLabels,
  superNamespaceSelector,
} from './namespace-labels.ts';
export { nodeIndexes, realNodeName, shownHostIP, shownNodeName } from './node-names.ts';
export { scrub } from './scrub.ts';
export { transparentMetadataPatch } from './transparent.ts';
