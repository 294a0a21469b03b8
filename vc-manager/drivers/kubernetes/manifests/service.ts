import type { KubeObject } from '../../../../kube/index.ts';
import { apiServer, apiServerPort, componentLabel, idLabel, labelsOf, namespaceOf } from '../names.ts';

/** The one address of a component, however many there are of it. Made before they are: it stands in certificates. */
export function serviceManifest(id: string, component: string, targetPort: number): KubeObject {
  return {
    metadata: { name: component, namespace: namespaceOf(id), labels: labelsOf(id, component) },
    spec: {
      type: 'ClusterIP',
      selector: { [idLabel]: id, [componentLabel]: component },
      ports: [
        {
          name: 'main',
          protocol: 'TCP',
          port: component === apiServer ? apiServerPort : targetPort,
          targetPort,
        },
      ],
    },
  };
}
