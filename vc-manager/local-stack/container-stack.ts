import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { type Clock, CodedError, systemClock } from '../../kube/index.ts';
import { Binaries } from '../binaries/index.ts';
import type { ComponentPlan, ControlPlanePlan } from '../control-plane/plan.ts';
import { Probe } from '../drivers/readiness.ts';
import { replaceFile } from '../os/files.ts';
import { LocalStack, type LocalStackParts } from './local-stack.ts';
import { type StackPorts, stackPortNames } from './stack-ports.ts';

/** Those of docker-compose.yml: fixed, because the file names them. */
export const defaultContainerPorts: StackPorts = {
  'super-cluster': 20_443,
  'super-etcd-client': 20_379,
  'super-etcd-http': 20_382,
  'super-etcd-peer': 20_380,
  'super-etcd-metrics': 20_381,
  'datastore-client': 20_479,
  'datastore-http': 20_482,
  'datastore-peer': 20_480,
  'datastore-metrics': 20_481,
};

const settingsSchema = z.object({
  nodes: z.int(),
  advertiseAddress: z.string(),
  ports: z.object(
    Object.fromEntries(stackPortNames.map((name) => [name, z.int()])) as Record<keyof StackPorts, z.ZodInt>,
  ),
});

type ContainerSettings = z.infer<typeof settingsSchema>;

interface ContainerStackOptions {
  /** `stack/<component>/files` and `stack/<component>/data` in it are what the containers see under the same path. */
  stateDir: string;
  clock?: Clock;
}

type ContainerStackErrorCode = 'NotPrepared' | 'UnknownComponent' | 'NotReady' | 'PortTwice';

/** A step of the stack in containers that cannot be done. */
class ContainerStackError extends CodedError<ContainerStackErrorCode> {
  override readonly name = 'ContainerStackError';

  constructor(code: ContainerStackErrorCode, message: string) {
    super(code, message, false);
  }
}

/**
 * The local stack where something else starts its components, each in a container of the upstream image: what they
 * read is written here, and their readiness is waited for here, because most of those images hold nothing that could.
 */
export class ContainerStack {
  readonly #stateDir: string;
  readonly #clock: Clock;

  constructor({ stateDir, clock = systemClock }: ContainerStackOptions) {
    this.#stateDir = stateDir;
    this.#clock = clock;
  }

  /** Writes certificates, kubeconfigs and configuration of every component, and keeps what is there already. */
  async prepare(settings: ContainerSettings): Promise<void> {
    refuseSharedPorts(settings.ports);
    const { plan, parts } = await this.#stack(settings).plan();
    for (const { name, files } of plan.components) {
      await mkdir(this.#data(name), { recursive: true, mode: 0o700 });
      for (const { path, content } of files) {
        await replaceFile(join(this.#files(name), path), this.filledIn(name, content));
      }
    }
    const {
      managerKubeconfig = '',
      syncerKubeconfig = '',
      gatewayKubeconfig = '',
    } = parts.superCluster ?? {};
    await replaceFile(join(this.#stateDir, 'super-cluster', 'manager.kubeconfig'), managerKubeconfig);
    // Each in a volume of its own, which is all that the program sees.
    await replaceFile(join(this.#files('vc-syncer'), 'super-cluster.kubeconfig'), syncerKubeconfig);
    await replaceFile(join(this.#files('vc-gateway'), 'super-cluster.kubeconfig'), gatewayKubeconfig);
    await replaceFile(this.#settingsFile(), `${JSON.stringify(settings, null, 2)}\n`);
  }

  /** Arguments and texts of a plan with the places that its container sees. */
  filledIn(component: string, text: string): string {
    return text.replaceAll('${files}', this.#files(component)).replaceAll('${data}', this.#data(component));
  }

  /** What the containers are to run. */
  async plan(): Promise<{ plan: ControlPlanePlan; parts: LocalStackParts }> {
    return this.#stack(await this.#settings()).plan();
  }

  /** Returns when these components answer that they are ready. */
  async wait(
    names: readonly string[],
    signal: AbortSignal,
    onProgress?: (message: string) => void,
  ): Promise<void> {
    const { plan } = await this.plan();
    await Promise.all(names.map((name) => this.#ready(probed(plan.components, name), signal, onProgress)));
  }

  /** Makes simulated nodes and storage, and returns when the nodes are ready. */
  async simulate(signal: AbortSignal, onProgress?: (message: string) => void): Promise<void> {
    const settings = await this.#settings();
    if (settings.nodes === 0) return;
    const stack = this.#stack(settings);
    const { parts } = await stack.plan();
    await stack.simulate(parts, { signal, onProgress });
  }

  async #ready(
    { name, probe }: ComponentPlan & { probe: NonNullable<ComponentPlan['probe']> },
    signal: AbortSignal,
    onProgress?: (message: string) => void,
  ): Promise<void> {
    const asking = await Probe.open(probe, this.#files(name));
    const deadline = this.#clock.monotonic() + probe.timeoutMs;
    let told: string | undefined;
    try {
      for (;;) {
        const problem = await asking.ask(signal);
        if (problem === undefined) return;
        if (problem !== told) onProgress?.(`${name}: ${problem}`);
        told = problem;
        if (this.#clock.monotonic() > deadline) {
          throw new ContainerStackError(
            'NotReady',
            `${name} was not ready within ${probe.timeoutMs / 1000} s (${problem}): see "docker compose logs ${name}"`,
          );
        }
        await this.#clock.sleep(200, signal);
      }
    } finally {
      asking.close();
    }
  }

  #stack({ nodes, advertiseAddress, ports }: ContainerSettings): LocalStack {
    return new LocalStack({
      stateDir: this.#stateDir,
      // Nothing is started here.
      binaries: new Binaries({ cacheDir: join(this.#stateDir, 'cache'), env: {}, offline: true }),
      advertiseAddress,
      ports,
      superCluster: { nodes },
      clock: this.#clock,
    });
  }

  async #settings(): Promise<ContainerSettings> {
    const text = await readFile(this.#settingsFile(), 'utf8').catch(() => undefined);
    if (text === undefined) {
      throw new ContainerStackError(
        'NotPrepared',
        `${this.#stateDir} holds no prepared stack: run "vc-manager container-stack prepare" first`,
      );
    }
    return settingsSchema.parse(JSON.parse(text));
  }

  #settingsFile(): string {
    return join(this.#stateDir, 'stack', 'settings.json');
  }

  #files(component: string): string {
    return join(this.#stateDir, 'stack', component, 'files');
  }

  #data(component: string): string {
    return join(this.#stateDir, 'stack', component, 'data');
  }
}

function probed(
  components: readonly ComponentPlan[],
  name: string,
): ComponentPlan & { probe: NonNullable<ComponentPlan['probe']> } {
  const component = components.find((each) => each.name === name);
  if (component?.probe !== undefined) return { ...component, probe: component.probe };
  const known = components.filter(({ probe }) => probe !== undefined).map((each) => each.name);
  throw new ContainerStackError(
    'UnknownComponent',
    `no component ${name} can be waited for: choose from ${known.join(', ')}`,
  );
}

function refuseSharedPorts(ports: StackPorts): void {
  const owners = new Map<number, string>();
  for (const [name, port] of Object.entries(ports)) {
    const other = owners.get(port);
    if (other !== undefined) {
      throw new ContainerStackError(
        'PortTwice',
        `${other} and ${name} cannot both have port ${port}: give each a port of its own`,
      );
    }
    owners.set(port, name);
  }
}
