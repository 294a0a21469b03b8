import { Session } from 'node:inspector';
import { parentPort, workerData } from 'node:worker_threads';
import {
  HeapMonitor,
  HeartbeatMonitor,
  markSuspect,
  questionName,
  type Suspect,
  tickMs,
  type WatchdogData,
  type WatchdogMessage,
} from './watchdog.ts';

// A thread of vc-syncer, which watches the one that does the work. What it needs only when that is stuck it loads then.
const { beats, heapLimit, kubeconfig, context } = workerData as WatchdogData;
const heartbeats = new HeartbeatMonitor();
const heap = new HeapMonitor(heapLimit);
/** One question at a time: it is answered in the midst of the other thread's work, or when that has ended. */
let isAsking = false;
/** UIDs that were noted in this silence. */
let noted = new Set<string>();

setInterval(() => {
  const beat = Atomics.load(beats, 0);
  const heapBytes = Atomics.load(beats, 1) * 1024 * 1024;
  const { isFull, wasFull } = heap.look(beat, heapBytes, process.memoryUsage.rss());
  const length = heartbeats.look(beat, isFull);
  if (length === 'none') {
    noted = new Set();
    return;
  }
  if (isAsking) return;
  isAsking = true;
  // A long silence is the work's own, however full memory was.
  ask(wasFull && length === 'short', (answer) => {
    isAsking = false;
    // Of later work: it has gone on meanwhile.
    if (answer === '' || Atomics.load(beats, 0) !== beat) return;
    const suspect = JSON.parse(answer) as Suspect;
    if (noted.has(suspect.uid)) return;
    noted.add(suspect.uid);
    void tell(suspect);
  });
}, tickMs);

/** The tenant that is suspected, by what the other thread does right now or by who has most memory; '': none. */
function ask(wasFull: boolean, onAnswer: (answer: string) => void): void {
  const session = new Session();
  session.connectToMainThread();
  const expression = `globalThis[Symbol.for('${questionName}')]?.(${wasFull}) ?? ''`;
  session.post('Runtime.evaluate', { expression, silent: true, returnByValue: true }, (error, answer) => {
    session.disconnect();
    const value: unknown = error === null ? answer.result.value : '';
    onAnswer(typeof value === 'string' ? value : '');
  });
}

async function tell(suspect: Suspect): Promise<void> {
  const message: WatchdogMessage = { suspect };
  try {
    await markSuspect(suspect, { kubeconfig, context });
  } catch (error) {
    message.error = `cannot note that this thread is stuck in work for ${suspect.namespace}/${suspect.name}: ${String(error)}`;
  }
  parentPort?.postMessage(message);
}
