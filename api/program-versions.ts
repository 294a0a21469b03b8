import { annotationKeys } from './labels.ts';

/** How programs say in Leases of Skerry's own namespace which version of them runs. */

type Annotations = Readonly<Record<string, string>>;

/** For a Lease that one process holds. It names the holder: an older program that takes the Lease over leaves it as it is. */
export function holderVersion(version: string, identity: string): Annotations {
  return { [annotationKeys.version]: `${version} ${identity}` };
}

/** Undefined when the annotation is of another holder than this one. */
export function versionOfHolder(annotations: Annotations | undefined, identity: string): string | undefined {
  const text = annotations?.[annotationKeys.version] ?? '';
  const end = text.indexOf(' ');
  return end > 0 && text.slice(end + 1) === identity ? text.slice(0, end) : undefined;
}

/** The Lease of all gateways. It has no holder: each gateway has an annotation there. */
export const gatewaysLeaseName = 'vc-gateway';

const gatewayPrefix = 'gateway.skerry.dev/';

export interface RunningGateway {
  /** A name as annotations have them. */
  identity: string;
  version: string;
  /** When it last said so, in RFC 3339. */
  seen: string;
}

export function gatewayAnnotation({ identity, version, seen }: RunningGateway): Annotations {
  return { [gatewayKey(identity)]: `${version} ${seen}` };
}

export function gatewayKey(identity: string): string {
  return gatewayPrefix + identity;
}

/** By identity; what is no annotation of a gateway is passed over. */
export function runningGateways(annotations: Annotations | undefined): RunningGateway[] {
  return Object.entries(annotations ?? {})
    .flatMap(([key, value]) => {
      const [version = '', seen = ''] = value.split(' ');
      if (!key.startsWith(gatewayPrefix) || version === '' || Number.isNaN(Date.parse(seen))) return [];
      return [{ identity: key.slice(gatewayPrefix.length), version, seen }];
    })
    .toSorted((a, b) => (a.identity < b.identity ? -1 : 1));
}
