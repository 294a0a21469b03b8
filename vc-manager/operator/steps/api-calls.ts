import { explain } from '../errors.ts';
import { hasPhaseAsleep } from '../sleep.ts';
import type { Step } from '../step-runner.ts';
import type { CallCount } from '../usage-meter.ts';

const timeoutMs = 10_000;
/** A tenant with many custom resources has metrics of some MiB. They are text, which takes no more memory than it has bytes. */
const maxBytes = 12 * 1024 * 1024;

/** Counts, every ten minutes, what the tenant's API server has answered. What it does not say is no reason to wait. */
export const apiCalls: Step = {
  name: 'api-calls',
  doing: 'Counting the calls of its API server',
  async run(tenant, { usage, clock, logger }) {
    const nowMs = clock.now();
    if (hasPhaseAsleep(tenant.vc) || !usage.isCallCountDue(tenant.uid, nowMs)) return;
    try {
      const text = await tenant.answerTime.within(tenant.signal, (signal) =>
        tenant.client.raw('GET', '/metrics', { signal, timeoutMs, maxBytes }),
      );
      usage.countCalls(tenant.uid, parseCallCount(String(text)), nowMs);
    } catch (error) {
      if (tenant.signal.aborted) throw error;
      usage.countCalls(tenant.uid, undefined, nowMs);
      logger.debug(
        { virtualCluster: tenant.key },
        `its calls cannot be counted: ${explain(error, tenant).message}`,
      );
    }
  },
};

const counter = '\napiserver_request_total{';
const started = '\nprocess_start_time_seconds ';
/** A tenant chooses how many resources it has. */
const maxLines = 200_000;

/** From the metrics of an API server; undefined for what is none, and for calls that no server can have counted. */
export function parseCallCount(text: string): CallCount | undefined {
  const startAt = text.indexOf(started);
  if (startAt < 0) return undefined;
  const startedAt = numberAfter(text, startAt + started.length);
  if (startedAt === undefined) return undefined;
  let calls = 0;
  let at = text.indexOf(counter);
  for (let lines = 0; at >= 0 && lines < maxLines; lines++) {
    const end = endOfLine(text, at + 1);
    const line = text.slice(at, end);
    calls += numberAfter(line, line.lastIndexOf(' ') + 1) ?? 0;
    if (!Number.isSafeInteger(calls)) return undefined;
    at = text.startsWith(counter, end) ? end : text.indexOf(counter, end);
  }
  return { startedAt: String(startedAt), calls };
}

function endOfLine(text: string, from: number): number {
  const end = text.indexOf('\n', from);
  return end < 0 ? text.length : end;
}

/** Finite and not negative. */
function numberAfter(text: string, from: number): number | undefined {
  const value = Number(text.slice(from, Math.min(endOfLine(text, from), from + 40)));
  return Number.isFinite(value) && value >= 0 ? value : undefined;
}
