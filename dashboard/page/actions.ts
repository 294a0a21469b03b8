import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { Preview } from '../types.ts';
import { get, post, type TenantDetail, tenantPath } from './api.ts';
import { messageOf } from './format.ts';
import { Dialog, html, useDialog } from './ui.ts';

let tell = (_message: string): void => undefined;

/** Where the outcome of an action is shown, and read out. */
export function Outcome(): VNode {
  const [message, setMessage] = useState('');
  tell = setMessage;
  useEffect(() => {
    if (message === '') return undefined;
    const timer = setTimeout(() => setMessage(''), 10_000);
    return () => clearTimeout(timer);
  }, [message]);
  return html`<div class="toast" role="status" aria-live="polite" data-empty=${message === ''}>${message}</div>`;
}

type Ref = { namespace: string; name: string };

/** Runs an action, says how it went. Throws what the server said when it refused. */
async function act(ref: Ref, action: object, signal?: AbortSignal): Promise<void> {
  const { message } = await post<{ message: string }>(tenantPath(ref, '/act'), action, signal);
  tell(`${message}.`);
}

interface FormProps {
  title: string;
  submit: string;
  /** On the button that closes it and does nothing. */
  dismiss?: string;
  /** What is told while it goes on, where that takes long. */
  busy?: string | undefined;
  isDanger?: boolean;
  mayNot?: boolean;
  onClose: () => void;
  onSubmit: () => Promise<void>;
  children: unknown;
}

/** A dialog with one decision. */
function Decision(props: FormProps): VNode {
  const { title, submit, dismiss = 'Cancel', busy, isDanger, mayNot, onClose, onSubmit, children } = props;
  const [problem, setProblem] = useState('');
  const [isBusy, setBusy] = useState(false);
  const run = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (isBusy) return;
    setBusy(true);
    setProblem('');
    try {
      await onSubmit();
      onClose();
    } catch (error) {
      setProblem(messageOf(error));
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <form onSubmit=${run}>
      ${children} ${problem !== '' && html`<p class="problem" role="alert">${problem}</p>`}
      ${isBusy && busy !== undefined && html`<p class="hint" role="status">${busy}</p>`}
      <div class="buttons">
        <button type="button" onClick=${onClose}>${dismiss}</button>
        <button type="submit" class=${isDanger ? 'danger' : 'primary'} disabled=${mayNot} aria-disabled=${isBusy}>${submit}</button>
      </div>
    </form>
  </${Dialog}>`;
}

const value = (set: (text: string) => void) => (event: Event) =>
  set((event.target as HTMLInputElement | HTMLSelectElement).value);

function useVersions(): string[] {
  const [versions, setVersions] = useState<string[]>([]);
  useEffect(() => {
    // Who may not see the templates names no version, and gets the newest.
    get<{ versions: string[] }>('/api/versions').then(
      (answer) => setVersions(answer.versions),
      () => undefined,
    );
  }, []);
  return versions;
}

export function CreateDialog({ onClose }: { onClose: () => void }): VNode {
  const [namespace, setNamespace] = useState('default');
  const [name, setName] = useState('');
  const [version, setVersion] = useState('');
  const [weight, setWeight] = useState('1');
  const [podSecurity, setPodSecurity] = useState('');
  const [isProtected, setProtected] = useState(false);
  const versions = useVersions();
  const create = async (): Promise<void> => {
    await act(
      { namespace, name },
      {
        do: 'create',
        weight: Number(weight),
        ...(version === '' ? {} : { version }),
        ...(podSecurity === '' ? {} : { podSecurity }),
        ...(isProtected ? { deletionProtection: true } : {}),
      },
    );
    location.hash = `#/tenants/${namespace}/${name}`;
  };
  // Browsers read it as with the flag v, in which a dash in a class has to be escaped.
  const dnsLabel = '[a-z0-9]([a-z0-9\\-]{0,61}[a-z0-9])?';
  return html`<${Decision} title="Create a tenant" submit="Create" onClose=${onClose} onSubmit=${create}>
    <label
      >Name
      <input name="name" required pattern=${dnsLabel} title="lower-case letters, digits and dashes" value=${name} onInput=${value(setName)} autocomplete="off" />
    </label>
    <label
      >Namespace of the super cluster
      <input name="namespace" required pattern=${dnsLabel} title="lower-case letters, digits and dashes" value=${namespace} onInput=${value(setNamespace)} autocomplete="off" />
    </label>
    <label
      >Kubernetes version
      <select name="version" value=${version} onChange=${value(setVersion)}>
        <option value="">the newest</option>
        ${versions.map((each) => html`<option value=${each}>${each}</option>`)}
      </select>
    </label>
    <label
      >Weight
      <input name="weight" type="number" required min="1" max="1000" value=${weight} onInput=${value(setWeight)} />
    </label>
    <label
      >Pod Security
      <select name="podSecurity" value=${podSecurity} onChange=${value(setPodSecurity)}>
        <option value="">the default (baseline, or less by policy)</option>
        ${['restricted', 'baseline', 'privileged'].map((each) => html`<option value=${each}>${each}</option>`)}
      </select>
    </label>
    <label class="check">
      <input type="checkbox" checked=${isProtected} onChange=${() => setProtected(!isProtected)} />
      Protect it from deletion
    </label>
  </${Decision}>`;
}

/** `problem`: why nothing can be said of it. */
type Outlook = Preview & { readonly problem?: string };

const unknown: Outlook = { text: 'Asking what would happen…', isPossible: false, needsForce: false };

/** What would come of an action. While that is being asked, and where it is refused, the action is not possible. */
function usePreview(tenant: TenantDetail, action: object): Outlook {
  const asked = JSON.stringify(action);
  const [answered, setAnswered] = useState({ asked: '', preview: unknown });
  useEffect(() => {
    let isCurrent = true;
    const answer = (preview: Outlook): void => {
      if (isCurrent) setAnswered({ asked, preview });
    };
    post<Preview>(tenantPath(tenant, '/preview'), action).then(answer, (error: unknown) =>
      answer({ ...unknown, problem: messageOf(error) }),
    );
    return () => {
      isCurrent = false;
    };
  }, [asked]);
  // That of another choice says nothing of this one.
  return answered.asked === asked ? answered.preview : unknown;
}

function PreviewText({ preview: { text, problem } }: { preview: Outlook }): VNode {
  return problem === undefined
    ? html`<pre class="preview" aria-live="polite">${text}</pre>`
    : html`<p class="problem" role="alert">${problem}</p>`;
}

function DeleteDialog({ tenant, onClose }: { tenant: TenantDetail; onClose: () => void }): VNode {
  const [confirm, setConfirm] = useState('');
  const [isKept, setKept] = useState(false);
  const { name, uid } = tenant;
  const action = { do: 'delete', uid, ...(isKept ? { snapshotFirst: true } : {}) };
  const preview = usePreview(tenant, { ...action, confirm: '' });
  const [closed] = useState(() => new AbortController());
  // While the snapshot is being taken it can still be called off.
  useEffect(() => () => closed.abort(), []);
  const remove = async (): Promise<void> => {
    await act(tenant, { ...action, confirm }, isKept ? closed.signal : undefined);
    location.hash = '#/tenants';
  };
  const busy = isKept ? 'The snapshot is being taken. Until it is kept, Cancel deletes nothing.' : undefined;
  return html`<${Decision} title=${`Delete ${name}?`} submit="Delete it for good" isDanger mayNot=${!preview.isPossible || confirm !== name} busy=${busy} onClose=${onClose} onSubmit=${remove}>
    <${PreviewText} preview=${preview} />
    ${
      mayBeKept(tenant) &&
      html`<label class="check">
        <input type="checkbox" checked=${isKept} onChange=${() => setKept(!isKept)} /> Take a snapshot first, and
        delete it only when that is kept
      </label>`
    }
    <label
      ><span>Type <b>${name}</b> to confirm</span>
      <input name="confirm" required value=${confirm} onInput=${value(setConfirm)} autocomplete="off" />
    </label>
  </${Decision}>`;
}

function UpgradeDialog({ tenant, onClose }: { tenant: TenantDetail; onClose: () => void }): VNode {
  const versions = useVersions();
  const [version, setVersion] = useState('');
  const [isForced, setForced] = useState(false);
  const action = { do: 'upgrade', ...(version === '' ? {} : { version }) };
  const preview = usePreview(tenant, action);
  const choose = (chosen: string): void => {
    setVersion(chosen);
    // What speaks against another version is not what was agreed to.
    setForced(false);
  };
  const upgrade = () => act(tenant, { ...action, ...(isForced ? { force: true } : {}) });
  const mayNot = !preview.isPossible || (preview.needsForce && !isForced);
  return html`<${Decision} title=${`Upgrade ${tenant.name}`} submit="Upgrade" mayNot=${mayNot} onClose=${onClose} onSubmit=${upgrade}>
    <p>It runs ${tenant.version}.</p>
    <label
      >To version
      <select name="version" value=${version} onChange=${value(choose)}>
        <option value="">the newest that it can go to</option>
        ${versions.map((each) => html`<option value=${each}>${each}</option>`)}
      </select>
    </label>
    <${PreviewText} preview=${preview} />
    ${
      preview.needsForce &&
      html`<label class="check">
        <input type="checkbox" checked=${isForced} onChange=${() => setForced(!isForced)} /> Upgrade it all the same
      </label>`
    }
  </${Decision}>`;
}

interface Simple {
  label: string;
  action: 'sleep' | 'wake' | 'snapshot' | 'renew' | 'retry' | 'cancel';
  text: string;
}

function SimpleDialog({
  tenant,
  what,
  onClose,
}: {
  tenant: TenantDetail;
  what: Simple;
  onClose: () => void;
}): VNode {
  const title = `${what.label}: ${tenant.name}`;
  const run = () => act(tenant, { do: what.action });
  const dismiss = what.action === 'cancel' ? 'Let it go on' : undefined;
  return html`<${Decision} title=${title} submit=${what.label} dismiss=${dismiss} onClose=${onClose} onSubmit=${run}>
    <p>${what.text}</p>
  </${Decision}>`;
}

/** Whether it has never been ready: until then it can neither sleep, be kept nor be changed. */
function isBeingMade({ phase }: Pick<TenantDetail, 'phase'>): boolean {
  return phase === 'Pending' || phase === 'Provisioning';
}

/** Whether a snapshot of it can be asked for by the person. */
function mayBeKept(tenant: TenantDetail): boolean {
  return tenant.may.change && !isBeingMade(tenant) && !tenant.isOverLimit;
}

const stopsProvision =
  ' Its processes are stopped, and the tenant stays unusable until you try again or change its spec.';

export function simpleActions({
  phase,
  jobs,
  isOverLimit,
}: Pick<TenantDetail, 'phase' | 'jobs' | 'isOverLimit'>): Simple[] {
  const current = jobs.find(
    ({ state }) => state === 'Running' || state === 'Waiting' || state === 'Retrying',
  );
  const cancel: Simple[] =
    current === undefined
      ? []
      : [
          {
            label: 'Cancel the job',
            action: 'cancel',
            text: `The ${current.kind} that is under way is cancelled, if that is still possible.${current.kind === 'provision' ? stopsProvision : ''}`,
          },
        ];
  // There is nothing to act upon.
  if (isOverLimit) return cancel;
  const asleep = phase === 'Asleep';
  const ofMade: Simple[] = [
    asleep
      ? { label: 'Wake', action: 'wake', text: 'Its control plane is started.' }
      : {
          label: 'Sleep',
          action: 'sleep',
          text: 'Its control plane is stopped; its pods keep running. The next connection through the gateway starts it again.',
        },
    {
      label: 'Snapshot',
      action: 'snapshot',
      text: 'What it has in the datastore is kept: every object, Secrets included, but no volumes.',
    },
    {
      label: 'Renew certificates',
      action: 'renew',
      text: 'All its certificates and kubeconfigs are issued anew; its API server is started anew for that.',
    },
  ];
  return [
    ...(isBeingMade({ phase }) ? [] : ofMade),
    ...cancel,
    ...(phase === 'Cancelled' || phase === 'Failed' || current?.state === 'Retrying'
      ? ([
          {
            label: 'Try again',
            action: 'retry',
            text: 'What was cancelled or waits after a failure is tried again at once.',
          },
        ] as Simple[])
      : []),
  ];
}

/** Hands a text to the browser as a file. */
function download(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: 'application/yaml' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}

/** `path`: where the server has it. */
export function KubeconfigButton({ path, name }: { path: string; name: string }): VNode {
  const fetchIt = async (): Promise<void> => {
    try {
      const { kubeconfig } = await post<{ kubeconfig: string }>(path);
      download(`${name}.kubeconfig`, kubeconfig);
      tell(`${name}.kubeconfig is saved. Keep it safe: it gives admin rights in the tenant.`);
    } catch (error) {
      tell(messageOf(error));
    }
  };
  return html`<button type="button" onClick=${fetchIt}>Kubeconfig</button>`;
}

/** What the user may do with a tenant. Buttons that the API server would refuse are not there. */
export function Actions({ tenant }: { tenant: TenantDetail }): VNode {
  const { what, count, open, close } = useDialog<Simple | 'delete' | 'upgrade'>();
  const { may } = tenant;
  const isLeaving = tenant.phase === 'Deleting';
  return html`<div class="actions" role="group" aria-label="Actions">
    ${may.kubeconfig && !tenant.isOverLimit && html`<${KubeconfigButton} path=${tenantPath(tenant, '/kubeconfig')} name=${tenant.name} />`}
    ${
      may.change &&
      !isLeaving &&
      html`${simpleActions(tenant).map(
        (each) => html`<button type="button" onClick=${() => open(each)}>${each.label}</button>`,
      )}
        ${!tenant.isOverLimit && !isBeingMade(tenant) && html`<button type="button" onClick=${() => open('upgrade')}>Upgrade</button>`}`
    }
    ${
      may.delete &&
      !isLeaving &&
      html`<button type="button" class="danger" onClick=${() => open('delete')}>Delete</button>`
    }
    ${!may.change && !may.delete && html`<span class="muted">You may look, and change nothing.</span>`}
    ${what === 'delete' && html`<${DeleteDialog} key=${count} tenant=${tenant} onClose=${close} />`}
    ${what === 'upgrade' && html`<${UpgradeDialog} key=${count} tenant=${tenant} onClose=${close} />`}
    ${typeof what === 'object' && html`<${SimpleDialog} key=${count} tenant=${tenant} what=${what} onClose=${close} />`}
  </div>`;
}
