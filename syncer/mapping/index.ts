export { bucketOf } from './bucket.ts';
export { copyMetadata } from './copy.ts';
export { defaultDeniedKeyPrefixes, goesDown, namespaceAllowedKeys } from './keys.ts';
export { isOurs, marks, tenantNamespaceOf, tenantUidOf, uidMark } from './marks.ts';
export { type SuperMetadataOptions, superMetadata, superMetadataPatch } from './metadata.ts';
export { rootCaName, superNamespaceName, superRootCaName } from './names.ts';
export { scrub } from './scrub.ts';
export { transparentMetadataPatch } from './transparent.ts';
