/** Marks by which everyone can see that a node or volume is only simulated. */
export const simulatedLabel = 'skerry.dev/simulated';
/** Nodes with it are looked after by kwok; others are left alone. */
export const kwokNodeAnnotation = 'kwok.x-k8s.io/node';
export const simulatedStorageClass = 'simulated';
export const simulatedProvisionerName = 'skerry.dev/simulated';
/** The server wants a domain name here. */
export const simulatedCsiDriver = 'simulated.skerry.dev';
/** On a pod of a Job: how long it pretends to work (`5s`), and with which code it exits. */
export const runForAnnotation = 'simulation.skerry.dev/run-for';
export const exitCodeAnnotation = 'simulation.skerry.dev/exit-code';
