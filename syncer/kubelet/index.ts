export { readServingCertificate, type ServingCertificate } from './certificate.ts';
export { KubeletServer, type KubeletServerOptions } from './kubelet-server.ts';
