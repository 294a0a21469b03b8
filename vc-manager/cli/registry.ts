import type { Command } from 'commander';
import type { Cli } from './context.ts';

interface CommandModule {
  /** Arguments, options, examples and action of one command. */
  configure(command: Command, cli: Cli): void;
}

interface RegisteredCommand {
  name: string;
  alias?: string;
  /** What other programs call it. These are no commands: who types one is told the name. */
  synonyms?: readonly string[];
  summary: string;
  group: string;
  hidden?: boolean;
  /** Commands are loaded when they are named: some import most of the program. */
  load: () => Promise<CommandModule>;
}

const stack = 'The local stack:';
const tenants = 'Tenants:';
const machine = 'This machine:';

/** A command is an entry here and a file in `commands/`. */
export const registry: readonly RegisteredCommand[] = [
  {
    name: 'up',
    synonyms: ['start', 'init'],
    group: stack,
    summary: 'start the local stack and keep it running',
    load: () => import('./commands/up.ts'),
  },
  {
    name: 'down',
    synonyms: ['stop'],
    group: stack,
    summary: 'stop the local stack; its state stays',
    load: () => import('./commands/down.ts'),
  },
  {
    name: 'dashboard',
    group: tenants,
    summary: 'show all tenants in the browser',
    load: () => import('./commands/dashboard.ts'),
  },
  {
    name: 'create',
    group: tenants,
    summary: 'create a tenant with a control plane of its own',
    load: () => import('./commands/create.ts'),
  },
  {
    name: 'list',
    alias: 'ls',
    synonyms: ['get', 'ps', 'status'],
    group: tenants,
    summary: 'list tenants',
    load: () => import('./commands/list.ts'),
  },
  {
    name: 'describe',
    synonyms: ['show', 'info'],
    group: tenants,
    summary: 'show all about a tenant, and what to do when something is wrong',
    load: () => import('./commands/describe.ts'),
  },
  {
    name: 'kubeconfig',
    group: tenants,
    summary: 'print the kubeconfig of a tenant or of the super cluster',
    load: () => import('./commands/kubeconfig.ts'),
  },
  {
    name: 'events',
    group: tenants,
    summary: 'show what Skerry has to say about a tenant, and what it refuses',
    load: () => import('./commands/events.ts'),
  },
  {
    name: 'quota',
    group: tenants,
    summary: 'show what a tenant has and what it may have',
    load: () => import('./commands/quota.ts'),
  },
  {
    name: 'top',
    group: tenants,
    summary: 'show what tenants use now',
    load: () => import('./commands/top.ts'),
  },
  {
    name: 'usage',
    group: tenants,
    summary: 'show what tenants have used, by month or day',
    load: () => import('./commands/usage.ts'),
  },
  {
    name: 'connect',
    group: tenants,
    summary: 'make a tenant the current context of kubectl, or run a command with it',
    load: async () => ({ configure: (await import('./commands/connect.ts')).configureConnect }),
  },
  {
    name: 'disconnect',
    group: tenants,
    summary: 'go back to the context from before connect',
    load: async () => ({ configure: (await import('./commands/connect.ts')).configureDisconnect }),
  },
  {
    name: 'kubectl',
    group: tenants,
    summary: 'run kubectl in a tenant',
    load: () => import('./commands/kubectl.ts'),
  },
  {
    name: 'logs',
    group: tenants,
    summary: 'print the logs of a control plane',
    load: () => import('./commands/logs.ts'),
  },
  {
    name: 'jobs',
    group: tenants,
    summary: 'show long operations on control planes, cancel them or try them again',
    load: () => import('./commands/jobs.ts'),
  },
  {
    name: 'certificates',
    group: tenants,
    summary: 'renew certificates and authorities of a control plane, and show them',
    load: () => import('./commands/certificates.ts'),
  },
  {
    name: 'rotate-encryption-key',
    group: tenants,
    summary: 'give a tenant another key for what is encrypted in the datastore',
    load: () => import('./commands/rotate-encryption-key.ts'),
  },
  {
    name: 'upgrade',
    group: tenants,
    summary: 'take the control plane of a tenant to another Kubernetes version',
    load: () => import('./commands/upgrade.ts'),
  },
  {
    name: 'snapshot',
    group: tenants,
    summary: 'keep what a tenant has in the datastore, or show what is kept',
    load: () => import('./commands/snapshot.ts'),
  },
  {
    name: 'restore',
    group: tenants,
    summary: 'put a tenant back to a snapshot',
    load: () => import('./commands/restore.ts'),
  },
  {
    name: 'move',
    group: tenants,
    summary: 'move a tenant to another driver, or to or from an etcd of its own',
    load: () => import('./commands/move.ts'),
  },
  {
    name: 'sleep',
    alias: 'pause',
    group: tenants,
    summary: 'stop the control plane of a tenant until it is used again; its pods keep running',
    load: async () => ({ configure: (await import('./commands/sleep.ts')).configureSleep }),
  },
  {
    name: 'wake',
    alias: 'resume',
    group: tenants,
    summary: 'start the control plane of a tenant that is asleep',
    load: async () => ({ configure: (await import('./commands/sleep.ts')).configureWake }),
  },
  {
    name: 'trace',
    group: tenants,
    summary: 'show where the time of a pod went, or which pods were slow',
    load: () => import('./commands/trace.ts'),
  },
  {
    name: 'diff',
    group: tenants,
    summary: 'show what differs between a tenant and the super cluster, and why',
    load: () => import('./commands/diff.ts'),
  },
  {
    name: 'delete',
    synonyms: ['rm', 'remove', 'destroy'],
    group: tenants,
    summary: 'delete tenants and everything that is theirs',
    load: () => import('./commands/delete.ts'),
  },
  {
    name: 'binaries',
    group: machine,
    summary: 'show where the Kubernetes binaries come from, or fetch them',
    load: () => import('./commands/binaries.ts'),
  },
  {
    name: 'doctor',
    group: machine,
    summary: 'check what this machine lacks',
    load: () => import('./commands/doctor.ts'),
  },
  {
    name: 'version',
    group: machine,
    summary: 'print versions, with --all of the super cluster, managers, syncers and tenants too',
    load: () => import('./commands/version.ts'),
  },
  {
    name: 'support-bundle',
    group: machine,
    summary: 'put logs, objects and versions into one file to get help with, without secrets',
    load: () => import('./commands/support-bundle.ts'),
  },
  {
    name: 'gc',
    group: machine,
    summary: 'find and remove what belongs to no tenant any more',
    load: () => import('./commands/gc.ts'),
  },
  {
    name: 'operator',
    group: machine,
    summary: 'run the manager alone, for a super cluster of yours',
    load: () => import('./commands/operator.ts'),
  },
  {
    name: 'container-stack',
    group: machine,
    summary: 'the steps of docker-compose.yml that are neither a server nor the manager',
    hidden: true,
    load: () => import('./commands/container-stack.ts'),
  },
  {
    name: 'completion',
    group: machine,
    summary: 'print a completion script for bash, zsh or fish',
    load: () => import('./commands/completion.ts'),
  },
  {
    name: '__complete',
    group: machine,
    summary: 'used by the completion scripts',
    hidden: true,
    load: () => import('./commands/complete.ts'),
  },
];

/** By a name that it has in other programs. */
export function findBySynonym(word: string): RegisteredCommand | undefined {
  return registry.find(({ synonyms }) => synonyms?.includes(word));
}

export function findCommand(name: string): RegisteredCommand | undefined {
  return registry.find((command) => command.name === name || command.alias === name);
}
