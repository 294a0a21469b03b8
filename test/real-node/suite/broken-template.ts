import { type KubeObject, resources } from '../../../kube/index.ts';
import type { World } from '../../harness/world.ts';

interface Template extends KubeObject {
  spec: { components: { name: string; args: Record<string, string>; replicas?: number }[] };
}

/** A ControlPlaneTemplate as the packaged one, but its API servers, of which there are two, do not know a flag. */
export async function brokenTemplate({ superCluster }: World): Promise<KubeObject> {
  // The manager makes it, and leads only some time after it is ready.
  const { spec } = await superCluster.until<Template, Template>(
    { resource: resources.controlPlaneTemplates, name: 'v1-36', what: 'the template of the manager' },
    ([template]) => template,
  );
  return {
    apiVersion: 'skerry.dev/v1alpha1',
    kind: 'ControlPlaneTemplate',
    metadata: { name: 'broken' },
    spec: {
      ...spec,
      components: spec.components.map((component) =>
        component.name === 'kube-apiserver'
          ? { ...component, replicas: 2, args: { ...component.args, 'no-such-flag': 'true' } }
          : component,
      ),
    },
  };
}
