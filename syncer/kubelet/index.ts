export { KubeletServer, type KubeletServerOptions } from './kubelet-server.ts';
export { readServingCertificate, type ServingCertificate } from './certificate.ts';
