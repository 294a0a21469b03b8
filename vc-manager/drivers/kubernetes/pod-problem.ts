import { containerOf, type Pod } from './types.ts';

/** Why a pod is not ready. */
export interface PodProblem {
  /** `starting`: nothing is wrong. */
  kind: 'starting' | 'unschedulable' | 'image' | 'crashing' | 'config';
  message: string;
  pod: string;
}

const imageReasons = ['ErrImagePull', 'ImagePullBackOff', 'InvalidImageName', 'ErrImageNeverPull'];
const configReasons = ['CreateContainerConfigError', 'CreateContainerError', 'RunContainerError'];

/** What a pod that is not ready says of itself. */
export function problemOf(pod: Pod): PodProblem {
  const name = pod.metadata.name ?? '';
  const unscheduled = pod.status?.conditions?.find(
    ({ type, status }) => type === 'PodScheduled' && status === 'False',
  );
  if (unscheduled !== undefined) {
    return { kind: 'unschedulable', pod: name, message: `${name} has no node: ${unscheduled.message ?? ''}` };
  }
  const container = containerOf(pod);
  const { waiting, terminated } = container?.state ?? {};
  const said = waiting?.message === undefined ? '' : `: ${waiting.message}`;
  if (waiting?.reason !== undefined && imageReasons.includes(waiting.reason)) {
    return { kind: 'image', pod: name, message: `${name} has no image (${waiting.reason}${said})` };
  }
  if (waiting?.reason !== undefined && configReasons.includes(waiting.reason)) {
    return { kind: 'config', pod: name, message: `${name} cannot be started (${waiting.reason}${said})` };
  }
  const last = terminated ?? container?.lastState?.terminated;
  if (waiting?.reason === 'CrashLoopBackOff' || terminated !== undefined) {
    const exit = last === undefined ? 'exit status unknown' : `exit code ${last.exitCode}`;
    return { kind: 'crashing', pod: name, message: `${name} has exited (${exit})` };
  }
  if (pod.metadata.deletionTimestamp !== undefined) {
    return { kind: 'starting', pod: name, message: `${name} is being replaced` };
  }
  const doing = container?.state?.running === undefined ? 'is being started' : 'runs and is not ready yet';
  return { kind: 'starting', pod: name, message: `${name} ${doing}` };
}
