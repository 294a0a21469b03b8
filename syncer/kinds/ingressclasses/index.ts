import { resources } from '../../../kube/index.ts';
import { ingressesOfClass } from '../ingresses/index.ts';
import { publishedKind } from '../published/index.ts';

/**
 * IngressClass: a copy of each that the operator has published. Its parameters are objects of the super
 * cluster, and stay there.
 */
export const ingressClassKind = publishedKind({
  resource: resources.ingressClasses,
  fields: ['spec'],
  frozen: ['spec.controller'],
  touches: { tenant: ingressesOfClass },
  shown({ spec }) {
    const { controller } = (spec ?? {}) as { controller?: string };
    return { spec: controller === undefined ? {} : { controller } };
  },
});
