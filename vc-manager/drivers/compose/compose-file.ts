import { stringify } from 'yaml';
import type { ControlPlanePlan } from '../../control-plane/index.ts';
import { containerUser, inside, labels, projectOf } from './names.ts';
import type { Target } from './target.ts';

/** Upstream's kube-apiserver has this as a file capability, and the kernel refuses to run it where it may not have it. */
const capabilities: Readonly<Record<string, string[]>> = { 'kube-apiserver': ['NET_BIND_SERVICE'] };

/**
 * The Compose file of a control plane. Without secrets: those lie in the volumes that it names. Pure: equal plans give
 * equal files.
 */
export function composeFile(plan: ControlPlanePlan, targets: readonly Target[]): string {
  const volumes = targets.flatMap((target) => Object.values(target.volumes));
  const project = {
    name: projectOf(plan.id),
    services: Object.fromEntries(targets.map((target) => [target.component.name, service(plan, target)])),
    volumes: Object.fromEntries(volumes.map((name) => [name, { name, external: true }])),
  };
  const head = `# Control plane ${plan.id}, written by vc-manager: changes are lost when it next looks.\n`;
  return head + stringify(escaped(project), { lineWidth: 0 });
}

function service(plan: ControlPlanePlan, target: Target): object {
  const { name, dependsOn, stopTimeoutMs } = target.component;
  return {
    image: target.image,
    entrypoint: [target.program],
    command: target.args,
    ...(Object.keys(target.env).length === 0 ? {} : { environment: target.env }),
    ...(dependsOn.length === 0 ? {} : { depends_on: dependsOn }),
    // Tenants' addresses are ports of this machine, as they are without containers.
    network_mode: 'host',
    // The engine keeps them running, with or without a manager.
    restart: 'unless-stopped',
    stop_grace_period: `${stopTimeoutMs}ms`,
    user: `${containerUser}:${containerUser}`,
    read_only: true,
    cap_drop: ['ALL'],
    ...(capabilities[target.program] === undefined ? {} : { cap_add: capabilities[target.program] }),
    security_opt: ['no-new-privileges:true'],
    tmpfs: ['/tmp'],
    volumes: mounts(target),
    logging: { driver: 'json-file', options: { 'max-size': '10m', 'max-file': '2' } },
    labels: {
      ...plan.labels,
      [labels.id]: plan.id,
      [labels.component]: name,
      [labels.hash]: target.hash,
      [labels.dependsOn]: dependsOn.join(','),
      [labels.stopTimeoutMs]: String(stopTimeoutMs),
    },
  };
}

function mounts({ volumes: { files, data } }: Target): object[] {
  const mount = { type: 'volume', volume: { nocopy: true } };
  return [
    ...(files === undefined ? [] : [{ ...mount, source: files, target: inside.files, read_only: true }]),
    ...(data === undefined ? [] : [{ ...mount, source: data, target: inside.data }]),
  ];
}

/** Compose would fill variables in where a dollar sign stands. */
function escaped(value: unknown): unknown {
  if (typeof value === 'string') return value.replaceAll('$', '$$$$');
  if (Array.isArray(value)) return value.map(escaped);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, escaped(each)]));
}
