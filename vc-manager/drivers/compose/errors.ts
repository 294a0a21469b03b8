import { DriverError } from '../errors.ts';

/** Oldest Docker Compose that the driver is written for. */
export const oldestCompose = '2.20.0';

interface Where {
  id: string;
  component: string;
}

export function noDocker(cause: unknown): DriverError {
  return new DriverError(
    'EngineUnavailable',
    'there is no program "docker" in PATH. Install the Docker CLI with its Compose plugin (Debian: docker-cli and docker-compose; Docker: docker-ce-cli and docker-compose-plugin), or choose another --driver.',
    {},
    { cause },
  );
}

export function noEngine(said: string): DriverError {
  return new DriverError(
    'EngineUnavailable',
    `the Docker engine does not answer: ${lastLine(said)}. Start it (systemctl start docker), see that this user may use its socket (group docker), and that DOCKER_HOST or the Docker context name the engine of this machine ("docker info" must work).`,
    {},
  );
}

export function noCompose(said: string): DriverError {
  return new DriverError(
    'EngineTooOld',
    `"docker compose" does not work: ${lastLine(said)}. Install the Compose plugin, version ${oldestCompose} or later (docker-compose-plugin); the older program docker-compose will not do.`,
    {},
    { retryable: false },
  );
}

export function composeTooOld(version: string): DriverError {
  return new DriverError(
    'EngineTooOld',
    `Docker Compose ${version} is too old: ${oldestCompose} or later is needed (docker-compose-plugin).`,
    {},
    { retryable: false },
  );
}

export function imageMissing(where: Where, image: string, said: string): DriverError {
  return new DriverError(
    'ImageMissing',
    `the Docker engine does not have ${image}, which ${where.component} of ${where.id} needs, and cannot pull it: ${lastLine(said)}. Load it into the engine (docker load), or name a registry that has it (--image-registry).`,
    where,
  );
}

export function noImage(where: Where, command: string): DriverError {
  return new DriverError(
    'NoImage',
    `${where.component} of ${where.id} is the program ${command} of this machine; containers can run only what Kubernetes, etcd and kwok publish images of. Use --driver process for it.`,
    where,
    { retryable: false },
  );
}

/** `docker` has refused something that should work. */
export function refused(where: Partial<Where>, doing: string, said: string): DriverError {
  return new DriverError('CannotStart', `Docker could not ${doing}: ${lastLine(said)}`, where);
}

/** The CLI puts the reason last, after its progress. */
function lastLine(said: string): string {
  const line = said
    .split('\n')
    .map((each) => each.trim())
    .filter((each) => each !== '')
    .at(-1);
  return (line ?? 'it gave no reason').replace(/\.$/, '');
}
