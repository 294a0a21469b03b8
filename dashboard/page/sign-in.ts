import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { post } from './api.ts';
import { messageOf } from './format.ts';
import { reload, reportProblem, restartLoading, state } from './state.ts';
import { html } from './ui.ts';

async function signIn(body: object): Promise<void> {
  try {
    await post('/api/sign-in', body);
  } catch (error) {
    return reportProblem(messageOf(error));
  }
  await restartLoading();
}

/** A link that this program has printed: its secret is in the part of the address that is not sent, and goes from there at once. */
export async function followLink(): Promise<boolean> {
  const link = /^#link=([\w-]+)$/.exec(location.hash)?.[1];
  if (link === undefined) return false;
  history.replaceState(null, '', '/');
  await reload(false, async (signal) => {
    await post('/api/sign-in', { link }, signal);
    await reload();
  });
  return true;
}

export function SignIn(): VNode {
  const [token, setToken] = useState('');
  const [tenant, setTenant] = useState('');
  const [isBusy, setBusy] = useState(false);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (isBusy) return;
    setBusy(true);
    await signIn({ token, ...(tenant.trim() === '' ? {} : { tenant: tenant.trim() }) });
    setBusy(false);
  };
  const text = (set: (value: string) => void) => (event: Event) =>
    set((event.target as HTMLInputElement).value);
  return html`<main class="sign-in card" tabindex="-1">
    <h1><img src="/assets/icon.svg" alt="" width="32" height="32" /> Skerry</h1>
    ${state.problem !== '' && html`<p class="problem" role="alert">${state.problem}</p>`}
    ${
      state.session?.oidc === true &&
      html`<p><a class="button primary" href="/sign-in/oidc">Sign in with your organisation</a></p>
        <p class="or">or</p>`
    }
    <form onSubmit=${submit}>
      <label>
        Token
        <input
          type="password"
          name="token"
          required
          autocomplete="off"
          spellcheck=${false}
          value=${token}
          onInput=${text(setToken)}
        />
      </label>
      <p class="hint">
        A bearer token of the API server: <code>kubectl create token NAME</code>. It stays in a sealed cookie for 12 hours.
      </p>
      <label>
        <span>Tenant <span class="muted">(if it is a token of a tenant)</span></span>
        <input
          name="tenant"
          placeholder="namespace/name"
          autocomplete="off"
          spellcheck=${false}
          value=${tenant}
          onInput=${text(setTenant)}
        />
      </label>
      <button type="submit" class="primary" aria-disabled=${isBusy}>${isBusy ? 'Signing in…' : 'Sign in'}</button>
    </form>
    <p class="hint">On the machine of a local stack, <code>vc-manager dashboard</code> prints a link that signs you in.</p>
  </main>`;
}
