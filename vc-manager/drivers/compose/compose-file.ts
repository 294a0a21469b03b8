import { stringify } from 'yaml';
import { labelKeys } from '../../../api/labels.ts';
import { parseQuantity, withoutUndefined } from '../../../kube/index.ts';
import {
  type ComponentPlan,
  type ControlPlanePlan,
  type PlanFile,
  startOrder,
} from '../../control-plane/plan.ts';
import { componentHash, isControlPlaneName } from '../driver.ts';
import { invalidName } from '../errors.ts';
import { imageOf } from '../images.ts';
import { componentOf } from '../slots.ts';
import { noImage } from './docker.ts';

/** Labels of what the driver makes; containers, volumes and the compose file carry the same ones. */
export const labels = {
  id: labelKeys.id,
  /** On the container and the volumes of a component: its slot. */
  component: labelKeys.component,
  /** Digest of what the container was made for. */
  hash: 'skerry.dev/component-hash',
  /** Names of components, separated by commas. */
  dependsOn: 'skerry.dev/depends-on',
  stopTimeoutMs: 'skerry.dev/stop-timeout-ms',
  /** On volumes: `files` or `data`. */
  volume: 'skerry.dev/volume',
  /** On the container by which volumes are filled, in place of `component`. */
  filling: 'skerry.dev/filling',
} as const;

/** Where a component finds its directories. */
export const inside = { files: '/skerry/files', data: '/skerry/data' } as const;

/**
 * The user that components run as: the number that distroless images call nonroot. Their files and
 * data belong to it.
 */
export const containerUser = 65_532;

/** Name of the Compose project of a control plane. Throws `InvalidName`. */
export function projectOf(id: string): string {
  if (!isControlPlaneName(id)) throw invalidName('control plane', id);
  return `skerry-${id}`;
}

/** A new one for each change: a container never sees the files of the next one. */
function filesVolume(id: string, component: string, hash: string): string {
  return `${projectOf(id)}_${component}-files-${hash.slice(0, 12)}`;
}

function dataVolume(id: string, component: string): string {
  return `${projectOf(id)}_${component}-data`;
}

/** Components so ordered that each is stopped before those that it depends on. */
export function stopOrder<T extends { name: string; dependsOn: readonly string[] }>(
  components: readonly T[],
): { name: string; dependsOn: string[] }[] {
  return startOrder(
    components.map(({ name }) => ({
      name,
      dependsOn: components
        .filter((other) => other.dependsOn.includes(componentOf(name)))
        .map((other) => other.name),
    })),
  );
}

/** What a container of a component is made of. */
export interface ContainerSpec {
  /** Its name is that of the slot. */
  component: ComponentPlan;
  hash: string;
  image: string;
  /** The program by its name; images have it in PATH. */
  program: string;
  args: string[];
  env: Record<string, string>;
  files: PlanFile[];
  /** Absent when the component has no files, or no directory of its own. */
  volumes: { files?: string; data?: string };
  /** Weight of its processor time against that of other containers; undefined: the engine's default. */
  cpuShares: number | undefined;
  /** To run with, by which its connections are judged; undefined: nothing judges them. */
  group: number | undefined;
}

/** Throws `NoImage` for a component that is no program with an upstream image. */
export function containerSpec(
  id: string,
  component: ComponentPlan,
  {
    registry,
    group,
    weight = 1,
  }: { registry?: string | undefined; group?: number | undefined; weight?: number | undefined } = {},
): ContainerSpec {
  const { binary, name } = component;
  if (!('name' in binary)) throw noImage({ id, component: name }, binary.command);
  const fill = (text: string): string =>
    text.replaceAll('${files}', inside.files).replaceAll('${data}', inside.data);
  const hash = componentHash(component);
  const texts = [
    ...component.args,
    ...Object.values(component.env),
    ...component.files.map((f) => f.content),
  ];
  return {
    component,
    hash,
    image: imageOf(binary, registry),
    program: binary.name,
    args: component.args.map(fill),
    env: Object.fromEntries(Object.entries(component.env).map(([key, value]) => [key, fill(value)])),
    files: component.files.map((file) => ({ ...file, content: fill(file.content) })),
    volumes: {
      ...(component.files.length === 0 ? {} : { files: filesVolume(id, name, hash) }),
      ...(texts.some((text) => text.includes('${data}')) ? { data: dataVolume(id, name) } : {}),
    },
    cpuShares: cpuSharesOf(component, weight),
    group,
  };
}

/** Upstream's kube-apiserver has this as a file capability, and the kernel refuses to run it where it may not have it. */
const capabilities: Readonly<Record<string, string[]>> = { 'kube-apiserver': ['NET_BIND_SERVICE'] };

/**
 * The Compose file of a control plane. Without secrets: those lie in the volumes that it names. Pure: equal plans give
 * equal files.
 */
export function composeFile(plan: ControlPlanePlan, targets: readonly ContainerSpec[]): string {
  const volumes = targets.flatMap((target) => Object.values(target.volumes));
  const slots = new Map(targets.map(({ component: { name } }) => [componentOf(name), name]));
  const project = {
    name: projectOf(plan.id),
    services: Object.fromEntries(
      targets.map((target) => [target.component.name, service(plan, target, slots)]),
    ),
    volumes: Object.fromEntries(volumes.map((name) => [name, { name, external: true }])),
  };
  const head = `# Control plane ${plan.id}, written by vc-manager: changes are lost when it next looks.\n`;
  return head + stringify(escaped(project), { lineWidth: 0 });
}

function service(plan: ControlPlanePlan, target: ContainerSpec, slots: ReadonlyMap<string, string>): object {
  const { name, dependsOn, stopTimeoutMs } = target.component;
  return {
    image: target.image,
    entrypoint: [target.program],
    command: target.args,
    ...(Object.keys(target.env).length === 0 ? {} : { environment: target.env }),
    ...(dependsOn.length === 0 ? {} : { depends_on: dependsOn.map((each) => slots.get(each) ?? each) }),
    ...limitsOf(target),
    // Tenants' addresses are ports of this machine, as they are without containers.
    network_mode: 'host',
    // The engine keeps them running, with or without a manager.
    restart: 'unless-stopped',
    stop_grace_period: `${stopTimeoutMs}ms`,
    user: `${containerUser}:${target.group ?? containerUser}`,
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

/** As Compose takes them: bytes, processors, and a weight against other containers. */
function limitsOf({ component: { resources }, cpuShares }: ContainerSpec): object {
  const memory = parseQuantity(resources?.limits?.['memory']);
  const cpu = parseQuantity(resources?.limits?.['cpu']);
  return withoutUndefined({
    mem_limit: memory === undefined ? undefined : String(memory),
    cpus: cpu,
    cpu_shares: cpuShares,
  });
}

/** Containers that ask for nothing, as those of the stack itself, have 1024: no weight brings one beyond half of that. */
const mostCpuShares = 512;

/** 1024 for each processor asked for, as Kubernetes translates a request, times the weight. */
function cpuSharesOf({ resources }: ComponentPlan, weight: number): number | undefined {
  const asked = parseQuantity(resources?.requests?.['cpu']);
  if (asked === undefined) return undefined;
  const shares = asked * 1024;
  return Math.max(2, Math.round(Math.max(shares, Math.min(shares * weight, mostCpuShares))));
}

function mounts({ volumes: { files, data } }: ContainerSpec): object[] {
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
