export type { ClientAuthorities } from './authorities.ts';
export { KubeletProxy, type KubeletProxyOptions } from './kubelet-proxy.ts';
