import { render, type VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Outcome } from './actions.ts';
import { post } from './api.ts';
import { messageOf } from './format.ts';
import { followLink, SignIn } from './sign-in.ts';
import { reload, reportProblem, restartLoading, state, subscribe } from './state.ts';
import { Syncer } from './syncer.ts';
import { OwnPage, TenantPage } from './tenant.ts';
import { Attention, Certificates, Jobs, needAttention, Tenants } from './tenants.ts';
import { focusMain, html, useClock } from './ui.ts';

interface View {
  title: string;
  show: () => VNode;
  count?: () => number;
}

const tenants: View = { title: 'Tenants', show: () => html`<${Tenants} />` };
const views: Readonly<Record<string, View>> = {
  '#/tenants': tenants,
  '#/attention': {
    title: 'Attention',
    show: () => html`<${Attention} />`,
    count: () => needAttention().length,
  },
  '#/jobs': {
    title: 'Jobs',
    show: () => html`<${Jobs} />`,
    count: () => [...state.tenants.values()].filter(({ job }) => job !== undefined).length,
  },
  '#/certificates': { title: 'Certificates', show: () => html`<${Certificates} />` },
  '#/syncer': { title: 'Syncer', show: () => html`<${Syncer} />` },
};

function current(): Pick<View, 'title' | 'show'> {
  const { tenant } = state.session ?? {};
  if (tenant !== undefined) return { title: tenant, show: () => html`<${OwnPage} />` };
  const [, namespace, name] = /^#\/tenants\/([^/]+)\/([^/]+)$/.exec(location.hash) ?? [];
  if (namespace !== undefined && name !== undefined) {
    const show = () => html`<${TenantPage} key=${location.hash} namespace=${namespace} name=${name} />`;
    return { title: `${namespace}/${name}`, show };
  }
  return views[location.hash] ?? tenants;
}

async function signOut(): Promise<void> {
  try {
    await post('/api/sign-out');
  } catch (error) {
    return reportProblem(messageOf(error));
  }
  await restartLoading();
}

function App(): VNode {
  const [, draw] = useState(0);
  useEffect(() => {
    const again = () => draw((each) => each + 1);
    const moved = () => {
      again();
      focusMain();
      scrollTo(0, 0);
    };
    const unsubscribe = subscribe(again);
    addEventListener('hashchange', moved);
    return () => {
      unsubscribe();
      removeEventListener('hashchange', moved);
    };
  }, []);
  useClock(10_000);
  const { session, isLoaded, isLive, problem } = state;
  const view = session?.user === undefined ? undefined : current();
  useEffect(() => {
    document.title = view === undefined ? 'Skerry' : `${view.title} · Skerry`;
  }, [view?.title]);
  // What was pressed to sign in or out is gone.
  const lastSession = useRef(session);
  useEffect(() => {
    if (lastSession.current !== undefined && lastSession.current.user !== session?.user) focusMain();
    lastSession.current = session;
  }, [session?.user, session === undefined]);
  if (session === undefined)
    return problem === ''
      ? html`<p class="loading" role="status">Loading…</p>`
      : html`<main class="sign-in card"><p class="problem" role="alert">${problem}</p></main>`;
  if (session.user === undefined) return html`<${SignIn} />`;
  const isOn = (hash: string) => (location.hash === '' ? '#/tenants' : location.hash).startsWith(hash);
  return html`<a class="skip" href="#main" onClick=${skip}>Skip to the content</a>
    <header class="top">
      <a class="home" href="#/tenants"><img src="/assets/icon.svg" alt="" width="24" height="24" /> Skerry</a>
      ${
        session.tenant === undefined &&
        html`<nav aria-label="Views">
          ${Object.entries(views).map(([hash, { title, count }]) => {
            const number = count?.() ?? 0;
            return html`<a href=${hash} aria-current=${isOn(hash) ? 'page' : undefined}
              >${title}${number > 0 && html` <b class="count">${number}</b>`}</a
            >`;
          })}
        </nav>`
      }
      <div class="who">
        <span class=${`live ${isLive ? 'on' : ''}`} role="status">${isLive ? 'live' : 'not live'}</span>
        <span class="user" title=${session.user}>${session.user}</span>
        <button type="button" onClick=${signOut}>Sign out</button>
      </div>
    </header>
    <main id="main" tabindex="-1">
      ${problem !== '' && html`<p class="problem" role="alert">${problem}</p>`}
      ${isLoaded ? view?.show() : html`<p class="loading" role="status">Loading…</p>`}
    </main>
    <${Outcome} />`;
}

function skip(event: Event): void {
  event.preventDefault();
  focusMain();
}

const root = document.querySelector('#app');
if (root !== null) {
  root.textContent = '';
  render(html`<${App} />`, root);
}
followLink()
  .then((isDone) => (isDone ? undefined : reload()))
  .catch((error: unknown) => reportProblem(messageOf(error)));
