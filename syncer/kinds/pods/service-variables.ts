import type { ServicePort } from '../services/index.ts';

/**
 * The variables by which kubelet tells a container where a Service is, as name and value (sync rule 9).
 * A name that two Services share is not told apart.
 * https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
 */
export function serviceVariables(
  name: string,
  address: string,
  ports: readonly ServicePort[],
): [name: string, value: string][] {
  const [first] = ports;
  if (first === undefined) return [];
  const prefix = variableName(name);
  const named = ports.filter((port) => (port.name ?? '') !== '');
  return [
    [`${prefix}_SERVICE_HOST`, address],
    [`${prefix}_SERVICE_PORT`, String(first.port)],
    ...named.map((port): [string, string] => [
      `${prefix}_SERVICE_PORT_${variableName(port.name ?? '')}`,
      String(port.port),
    ]),
    [`${prefix}_PORT`, urlOf(first, address)],
    ...ports.flatMap((port) => portVariables(prefix, port, address)),
  ];
}

function portVariables(prefix: string, port: ServicePort, address: string): [string, string][] {
  const ofPort = `${prefix}_PORT_${port.port}_${protocolOf(port)}`;
  return [
    [ofPort, urlOf(port, address)],
    [`${ofPort}_PROTO`, protocolOf(port).toLowerCase()],
    [`${ofPort}_PORT`, String(port.port)],
    [`${ofPort}_ADDR`, address],
  ];
}

function urlOf(port: ServicePort, address: string): string {
  const host = address.includes(':') ? `[${address}]` : address;
  return `${protocolOf(port).toLowerCase()}://${host}:${port.port}`;
}

function protocolOf({ protocol = 'TCP' }: ServicePort): string {
  return protocol.toUpperCase();
}

function variableName(name: string): string {
  return name.replaceAll('-', '_').toUpperCase();
}
