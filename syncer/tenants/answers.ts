import type { ObjectRef } from '../../kube/index.ts';

/** The command that gives an answer. */
export function annotate(vc: ObjectRef, key: string, value: string): string {
  return `kubectl annotate --overwrite virtualcluster ${vc.name} -n ${vc.namespace} ${key}=${value}`;
}

/** The answer that a message asks for, if it does. */
export function answerIn(message: string | undefined, key: string): string | undefined {
  return message?.split(`${key}=`)[1]?.split(/\s/)[0];
}
