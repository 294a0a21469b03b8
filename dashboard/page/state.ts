import type { SyncerView, TenantRow } from '../types.ts';
import { get, isPassing, post, Refused, type SessionInfo, tryAgainMs, useCsrf } from './api.ts';
import { messageOf } from './format.ts';

/** What all views show. Replaced parts, never changed ones, so that a view can tell what is new. */
export interface State {
  session: SessionInfo | undefined;
  /** By `namespace/name`. */
  tenants: ReadonlyMap<string, TenantRow>;
  system: SyncerView | undefined;
  isLoaded: boolean;
  /** Whether changes arrive. */
  isLive: boolean;
  /** For a tenant's own page: grows with every change of it. */
  version: number;
  problem: string;
}

export let state: State = {
  session: undefined,
  tenants: new Map(),
  system: undefined,
  isLoaded: false,
  isLive: false,
  version: 0,
  problem: '',
};

const listeners = new Set<() => void>();

export function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function change(some: Partial<State>): void {
  state = { ...state, ...some };
  for (const listener of listeners) listener();
}

interface Changes {
  version: number;
  rows: TenantRow[];
  gone: string[];
  isWhole: boolean;
  problem?: string;
}

let source: EventSource | undefined;
let nextTry: ReturnType<typeof setTimeout> | undefined;
/** What follows a load. The signal: it is not wanted any more. */
type Afterwards = (signal: AbortSignal) => Promise<void>;

/** What is to be done once a try succeeds, also when something else has failed meanwhile. */
let putOff: Afterwards | undefined;
/** Aborted once somebody else may be signed in: what is under way was begun for whoever was there before. */
let person = new AbortController();
/** In a row. */
let failures = 0;
const longestTryAgainMs = 60_000;

/** Asks who is signed in, and follows what they may see. */
export async function load(isAgain = false, signal = person.signal): Promise<void> {
  source?.close();
  source = undefined;
  clearTimeout(nextTry);
  if (!isAgain) failures = 0;
  const session = await get<SessionInfo>('/api/session', signal);
  useCsrf(session.csrf ?? '');
  // What is shown stays until there is something newer for the same person.
  const isSame = session.user === state.session?.user && session.tenant === state.session?.tenant;
  if (isAgain && isSame && session.user !== undefined) change({ session });
  else {
    const { problem = '' } = session;
    change({ session, isLoaded: false, tenants: new Map(), system: undefined, problem });
  }
  if (session.user === undefined) return;
  let since = 0;
  if (session.tenant === undefined) {
    const changes = await get<Changes>('/api/tenants', signal);
    take(changes);
    since = changes.version;
  } else change({ isLoaded: true, problem: '' });
  follow(since);
}

function take({ version, rows, gone, isWhole, problem = '' }: Changes): void {
  const tenants = new Map(isWhole ? [] : state.tenants);
  for (const row of rows) tenants.set(`${row.namespace}/${row.name}`, row);
  for (const name of gone) tenants.delete(name);
  change({ tenants, version, isLoaded: true, problem });
}

/** The browser connects again by itself, and says where it was. */
function follow(since: number): void {
  let hasOpened = false;
  const own = new EventSource(`/api/stream?since=${since}`);
  source = own;
  source.onopen = () => {
    hasOpened = true;
    // For a tenant nothing has been read yet.
    if (state.session?.tenant === undefined) failures = 0;
    change({ isLive: true });
  };
  source.onerror = () => {
    change({ isLive: false });
    if (source?.readyState !== EventSource.CLOSED) return;
    // It was refused. Where that is not news, it may be so again.
    if (hasOpened) void reload();
    else void refused(own);
  };
  source.addEventListener('tenants', (event: MessageEvent<string>) => {
    const changes = JSON.parse(event.data) as Changes;
    failures = 0;
    if (state.session?.tenant === undefined) take(changes);
    else change({ version: changes.version });
  });
  source.addEventListener('system', (event: MessageEvent<string>) => {
    change({ system: JSON.parse(event.data) as SyncerView });
  });
  source.addEventListener('ended', (event: MessageEvent<string>) => {
    const { status, message } = JSON.parse(event.data) as { status: number; message: string };
    source?.close();
    change({ isLive: false, problem: message });
    if (status === 401) void signedOut(message);
    else if (isPassing(status)) tryAgain(message);
  });
}

/** The browser does not say why a stream was refused. A tenant whose token has expired is signed out. */
async function refused(stream: EventSource): Promise<void> {
  if (state.session?.tenant !== undefined) {
    const error: unknown = await get('/api/own').then(
      () => undefined,
      (failure: unknown) => failure,
    );
    // Meanwhile somebody has signed out.
    if (source !== stream) return;
    if (isUnauthorized(error)) {
      try {
        await post('/api/sign-out');
      } catch (failure) {
        if (!isUnauthorized(failure)) return tryAgain(messageOf(failure));
      }
      return signedOut(error.message);
    }
  }
  tryAgain();
}

function isUnauthorized(error: unknown): error is Refused {
  return error instanceof Refused && error.status === 401;
}

/** Loads, and again when that, or what is done `afterwards`, fails for a reason that may pass. */
export async function reload(isAgain = false, afterwards = putOff): Promise<void> {
  putOff = undefined;
  const { signal } = person;
  let hasLoaded = false;
  try {
    await load(isAgain);
    hasLoaded = true;
    await afterwards?.(signal);
  } catch (error) {
    if (signal.aborted) return;
    const problem = messageOf(error);
    change({ problem });
    // The server says for some seconds of a token that has expired that it is signed in.
    const isExpired = !hasLoaded && isUnauthorized(error);
    if (!isExpired && !(error instanceof Refused && isPassing(error.status))) return;
    putOff = afterwards ?? putOff;
    tryAgain(problem);
  }
}

/** For somebody else: a link that is being tried, or waits for its next try, is not followed any more. */
export function restartLoading(): Promise<void> {
  person.abort();
  person = new AbortController();
  return reload(false, async () => undefined);
}

/** After twice the time of the try before. `problem`: what the page shows until then. */
function tryAgain(problem?: string): void {
  clearTimeout(nextTry);
  const ms = Math.min(longestTryAgainMs, tryAgainMs * 2 ** failures);
  failures += 1;
  if (problem !== undefined) change({ problem: `${problem} (the page tries again after ${ms / 1_000} s)` });
  nextTry = setTimeout(() => void reload(true), ms);
}

/** Shows the way in again, and why. */
async function signedOut(message: string): Promise<void> {
  await reload();
  if (state.session?.user === undefined) change({ problem: message });
}

export function reportProblem(problem: string): void {
  change({ problem });
}
