/** Who attacks: the admin of a tenant, whose API server may lie; the owner of a VirtualCluster; anyone on the network. */
export type Attacker = 'tenant' | 'owner' | 'network';

/** One attack, what stops it, and the test that shows it, with a control that works: an attack that is only misspelt fails too. */
export interface Attempt {
  readonly attacker: Attacker;
  readonly attack: string;
  readonly stoppedBy: string;
  /** `path › title`; a title may be cut at its end. */
  readonly test: string;
  /**
   * What shows that the attack would work, or that the honest form of it does: `path › title` of another test, without
   * the path where that is the same, or a piece of the test's own text.
   */
  readonly control: string;
}

/** All attacks that tests carry out. `docs/security.md` shows them: with `SKERRY_WRITE_ATTACKS=1` the test of the docs writes the table there. */
export const attempts: readonly Attempt[] = [
  {
    attacker: 'network',
    attack: "use a tenant's certificate or token at another tenant or at the super cluster",
    stoppedBy: 'authorities and token keys of its own for each tenant',
    test: 'test/isolation.test.ts › certificates of one are refused by the other',
    control: `expect(await knock(one, { cert, key })).toMatchObject({ metadata: { name: 'kube-system' } })`,
  },
  {
    attacker: 'network',
    attack: 'come with a service account token of another tenant',
    stoppedBy: 'token keys of its own for each tenant',
    test: 'test/isolation.test.ts › so are tokens of its ServiceAccounts',
    control: '.poll(() => knock(one, { token }), { timeout: 30_000 })',
  },
  {
    attacker: 'tenant',
    attack: 'come back under the name of a deleted tenant with its old credentials',
    stoppedBy: 'authorities are made anew with each VirtualCluster',
    test: 'test/lifecycle.test.ts › begins anew under a name that another one had',
    control: `expect((await second.tryKubectl(['get', 'namespaces'])).exitCode).toBe(0)`,
  },
  {
    attacker: 'tenant',
    attack: "read or delete another tenant's keys in the datastore",
    stoppedBy: 'one etcd user per tenant with rights on its prefix only',
    test: 'test/isolation.test.ts › the etcd credentials of one open its own prefix and nothing else',
    control: 'expect(await range(`/tenants/${one.id}/`, `/tenants/${one.id}0`)).toBe(0)',
  },
  {
    attacker: 'network',
    attack: 'read Secrets in a stolen copy of the datastore',
    stoppedBy: 'encryption at rest, one key per tenant',
    test: "test/isolation.test.ts › Secrets are encrypted in the datastore with the tenant's own key",
    control: `expect(await stored('configmaps/apart/plain')).toContain(value)`,
  },
  {
    attacker: 'tenant',
    attack: 'run privileged pods, host namespaces, host paths; lift the Pod Security of its own namespaces',
    stoppedBy: 'sync rule `pod-security`, and Pod Security labels on super namespaces that no tenant writes',
    test: 'test/isolation.test.ts › even when the tenant says that its namespace may have such pods',
    control: 'test/policy-ceiling.test.ts › that a VirtualCluster may reach',
  },
  {
    attacker: 'tenant',
    attack: 'hide a volume behind a null or a second source, or send fields that nobody has thought about',
    stoppedBy: 'sync rule `judged-writes`: what is sent is judged, by a table of fields',
    test: 'syncer/reconcile/judged-writes.test.ts › of a pod with a field that is not known is not sent',
    control: '› is, without the field',
  },
  {
    attacker: 'tenant',
    attack: 'have something added to a write after it was judged',
    stoppedBy: 'sync rule `judged-writes`: judged once more as gates have left it',
    test: 'syncer/reconcile/judged-writes.test.ts › is judged as a gate has left it',
    control: `expect(await sent(async (_work, action) => action)).toMatchObject({ asked: ['create pods'] })`,
  },
  {
    attacker: 'tenant',
    attack: 'have a terminal of the operator act on errors, by control characters in answers or certificates',
    stoppedBy: 'texts of servers become printable where they are read',
    test: 'kube/errors.test.ts › is a text for people, whatever it sends',
    control: `toBe('GET pods: no?[2J error: all is well?')`,
  },
  {
    attacker: 'tenant',
    attack: 'have an operator copy a command of its own out of a condition, by a UID with a semicolon',
    stoppedBy: 'a UID of another form is not repeated, and no command is offered',
    test: 'syncer/tenants/deletion-holds.test.ts › has nothing but a UID put into the command',
    control: `includes('=someone-else') === true`,
  },
  {
    attacker: 'owner',
    attack: 'have a terminal act on conditions and events of a VirtualCluster',
    stoppedBy: 'conditions are written, and tables printed, as plain text',
    test: 'vc-manager/cli/output.test.ts › shows nothing in a cell that a terminal would act on',
    control: `toBe('a?]0;title?   ?b\\n')`,
  },
  {
    attacker: 'tenant',
    attack:
      'have the syncer write conditions that kubelet or the scheduler set, by readiness gates of their names',
    stoppedBy: 'sync rule `readiness-gates`',
    test: 'syncer/kinds/pods/judge.test.ts › a readiness gate that kubelet owns is refused by name',
    control: 'expect(podKind.admit?.(own, podContext())).toEqual({ wanted: true })',
  },
  {
    attacker: 'tenant',
    attack: 'bind a pod to a node by hand, or forge the mark of a bound pod',
    stoppedBy: 'sync rule `pod-creation`: pods are placed by the scheduler of the super cluster only',
    test: 'syncer/kinds/pods/admission.test.ts › does not keep it for a pod that the tenant bound elsewhere with a forged mark',
    control: '› keeps the super object of a pod that we have bound',
  },
  {
    attacker: 'tenant',
    attack: 'pin bare pods to nodes one by one, as a DaemonSet would, without its ownerReferences',
    stoppedBy: 'pods are judged by what they ask of nodes (policy `daemonSets`)',
    test: 'syncer/kinds/pods/admission.test.ts › takes a bare pod that names its node for one of a DaemonSet',
    control: `expect(admission({ spec: spec(named) }, withPolicy({ daemonSets: 'allow' }))).toEqual({ wanted: true })`,
  },
  {
    attacker: 'tenant',
    attack: 'tolerate the taints of control planes and node pools',
    stoppedBy: 'allow-list of keys (policy `tolerations`)',
    test: 'syncer/kinds/pods/admission.test.ts › says which tolerations stay behind, and by which policy',
    control: 'expect(admission({ spec: { tolerations } }, own)).toEqual({ wanted: true })',
  },
  {
    attacker: 'tenant',
    attack:
      'have a pod given a Secret or ConfigMap that only the super namespace has, put there before or after the pod',
    stoppedBy:
      'sync rule `late-references`: what the tenant lacks is called by a name that only Skerry gives',
    test: 'syncer/reconcile/late-references.test.ts › lead to no object of the operator, and to the own one when there is one',
    control: `expect(late()?.['data']).toEqual(tenantsOwn)`,
  },
  {
    attacker: 'tenant',
    attack: 'hide such a reference in a field that no API server would send beside another',
    stoppedBy: 'sync rule `late-references`: every place of a reference is renamed',
    test: 'syncer/kinds/pods/translate.test.ts › go by names that only Skerry gives, wherever they stand',
    control: '› keep the name of what the tenant has, each kind for itself',
  },
  {
    attacker: 'tenant',
    attack: 'run images from anywhere: in init containers, image volumes, by names that look alike',
    stoppedBy: 'policy `imageRegistries`, compared by the grammar of references',
    test: 'syncer/kinds/pods/admission.test.ts › %s judges %s',
    control: 'expect(admission({ spec: bad }, withPolicy(rest))).toEqual({ wanted: true })',
  },
  {
    attacker: 'tenant',
    attack: 'change the image of a running pod to one from elsewhere',
    stoppedBy: 'policy `imageRegistries`, asked at each change',
    test: 'syncer/kinds/pods/pods.test.ts › carry no image from a registry that the policy does not allow',
    control: `expect(settle(updated('good.example/web:2'), s, over).spec?.containers?.[0]?.image)`,
  },
  {
    attacker: 'tenant',
    attack: 'run an image that a node has from a pull of another tenant',
    stoppedBy: 'policy `alwaysPullImages`',
    test: 'syncer/kinds/pods/admission.test.ts › has every image pulled with the credentials of the pod where the policy says so',
    control: `expect(made(context)).toMatchObject({ containers: [{ imagePullPolicy: 'IfNotPresent' }] })`,
  },
  {
    attacker: 'tenant',
    attack: 'use a published class that is meant for others',
    stoppedBy: 'lists of classes in the policy',
    test: 'syncer/kinds/published-kind.test.ts › a policy with a list offers a tenant what is published and in the list',
    control: `[['gvisor', 'kata'], true]`,
  },
  {
    attacker: 'tenant',
    attack: 'read what another tenant, or the operator, keeps under a reserved name',
    stoppedBy: 'sync rule `reserved-names`',
    test: 'syncer/kinds/pods/admission.test.ts › refuses references to names that are reserved in super namespaces',
    control: `expect(admission({ spec: { volumes: [{ name: 'v', secret: { secretName: 'tokens' } }] } })).toEqual({ wanted: true })`,
  },
  {
    attacker: 'tenant',
    attack: 'take load balancers, mesh sidecars or runtime options by annotation',
    stoppedBy: 'sync rule `allowed-annotations`: an allow-list',
    test: 'syncer/kinds/pods/mirrored-keys.test.ts › go down by an allow-list, and an event names those that stay',
    control: 'expect(harmless.filter((key) => !(key in down))).toEqual([])',
  },
  {
    attacker: 'tenant',
    attack: 'let namespaces of two tenants meet in one super namespace by their names',
    stoppedBy: 'sync rule `namespace-names`: a hash of id and namespace in every name',
    test: 'test/names.test.ts › namespace b-c of tenant a and namespace c of tenant a-b never meet',
    control: 'expect(first?.slice(0, -16)).toBe(second?.slice(0, -16))',
  },
  {
    attacker: 'tenant',
    attack: 'pass an object off as made by Skerry by copying its marks',
    stoppedBy: 'label and UID mark together; look-alikes are left alone',
    test: 'test/safety.test.ts › look-alikes without our marks stand as they were',
    control:
      'syncer/reconcile/engine.test.ts › carries changes down, repairs drift, and takes deletions down',
  },
  {
    attacker: 'tenant',
    attack: 'hand owners and finalizers down, to have objects of the super cluster collected or kept',
    stoppedBy: 'sync rule `ownership-labels`: neither goes down',
    test: 'syncer/mapping/mapping.test.ts › turns owners into an annotation and leaves finalizers behind',
    control: `expect(JSON.parse(metadata.annotations?.[annotationKeys.ownerReferences] ?? '')).toEqual([owner])`,
  },
  {
    attacker: 'tenant',
    attack: 'lose everything at once (an emptied datastore), to have the super cluster emptied',
    stoppedBy: 'sync rules `side-identity`, `confirmed-delete` and `mass-deletion-hold`',
    test: 'test/safety.test.ts › a tenant whose etcd prefix is emptied behind its back loses nothing',
    control: '› a few, or a whole namespace, go without asking',
  },
  {
    attacker: 'tenant',
    attack: 'restore an old datastore while no syncer runs, so that newer objects count as deleted',
    stoppedBy: 'sync rule `side-identity`: how far the tenant had come is written down',
    test: 'syncer/tenants/deletion-holds.test.ts › loses nothing: how far it had come is written down',
    control: 'syncer/reconcile/deletion-safety.test.ts › opens for what the live server does not have',
  },
  {
    attacker: 'tenant',
    attack: 'point EndpointSlices at nodes, API servers, metadata addresses or pods of others',
    stoppedBy: 'sync rule `endpoint-slices`: own pods only, by what the super cluster says',
    test: 'syncer/kinds/endpoint-slices.test.ts › refuses any other address: nodes, API servers, link-local, other tenants',
    control:
      '› with managed-by rewritten, the reference to the tenant object stripped, the node that of the pod',
  },
  {
    attacker: 'tenant',
    attack: "write another pod's address into the status of a pod, and an endpoint to it",
    stoppedBy: 'addresses are looked up in the super cluster',
    test: "syncer/kinds/endpoint-slices.test.ts › does not believe what the tenant's pod status says",
    control:
      '› with managed-by rewritten, the reference to the tenant object stripped, the node that of the pod',
  },
  {
    attacker: 'tenant',
    attack: 'ask for a cluster IP of others, or add ServiceCIDRs to its own server',
    stoppedBy: 'sync rule `cluster-ip`: addresses of its own slice only',
    test: 'test/services.test.ts › with an address outside of the slice are refused, whatever ranges the tenant makes',
    control: '› have the same ClusterIP on both sides, out of the slice of their tenant',
  },
  {
    attacker: 'tenant',
    attack: 'claim the host names of others by Ingress rules, wildcards, certificates or a default backend',
    stoppedBy: 'sync rule `ingresses`: host names by policy',
    test: 'test/ingresses.test.ts › claim only host names that their tenant may have',
    control: `expect(await counterpart('own', neighbour)).toBeDefined()`,
  },
  {
    attacker: 'tenant',
    attack: 'bind a claim to a volume that is not its own',
    stoppedBy: 'sync rule `persistent-volume-claims`: no volumeName, no foreign data source',
    test: 'syncer/kinds/persistent-volume-claims.test.ts › data of anything but a claim of the same namespace',
    control: 'expect(kind.admit?.(cloning, published())).toEqual({ wanted: true })',
  },
  {
    attacker: 'tenant',
    attack: 'send its API server to another address by editing a Node (address, port, provider)',
    stoppedBy: 'sync rule `virtual-node-edits`, and an authority of its own for kubelets',
    test: 'test/nodes.test.ts › address, port, provider and mark are put back',
    control: `› keep the tenant's own labels and taints`,
  },
  {
    attacker: 'tenant',
    attack:
      "reach pods of others through the kubelet proxy, with another tenant's names or a certificate of the same tenant",
    stoppedBy: 'the tenant is known by the authority of its certificate, its pods by label and UID',
    test: "test/kubelet.test.ts › gives the API server of a tenant its own pods, and not another's of whatever name",
    control: `expect(await ask(other, '/containerLogs/logged/theirs/main')).toMatchObject({ status: 200 })`,
  },
  {
    attacker: 'tenant',
    attack:
      'run commands in a sidecar that the super cluster has added, which its API server claims as its own',
    stoppedBy: 'the super object is marked with the containers that it was made with',
    test: 'syncer/kubelet/find-pod.test.ts › of the containers those that the super object has from the tenant, whatever its API server says now',
    control: `expect(await statusOf('main')).toBe(200)`,
  },
  {
    attacker: 'tenant',
    attack: 'keep the syncer busy by undoing what it writes, many times a second',
    stoppedBy: 'sync rule `contested-writes`: such a patch is held back, for longer and longer',
    test: 'syncer/reconcile/execute.test.ts › is held back when something undoes it again and again, and other writes of the object are not',
    control: 'expect(writes()).toBe(before + 1)',
  },
  {
    attacker: 'tenant',
    attack: 'ask the kubelet proxy for what concerns a whole node, in crafted forms of a path',
    stoppedBy: 'the path parser takes what it knows and nothing else',
    test: 'syncer/kubelet/request-path.test.ts › is told from one about a pod, whatever its form',
    control: '› for logs keeps every parameter',
  },
  {
    attacker: 'network',
    attack: 'flood the kubelet proxy with connections that say nothing',
    stoppedBy: 'limits for connections without a certificate, apart from those of tenants',
    test: 'syncer/kubelet/kubelet-server.test.ts › lets in whoever is known while it is flooded',
    control: 'await closed.promise',
  },
  {
    attacker: 'tenant',
    attack: 'freeze the syncer by a selector of tens of thousands of commas',
    stoppedBy: 'selectors are read in linear time, with limits of length and number',
    test: 'syncer/kubelet/metrics-api.test.ts › is refused when it is too long, before it is taken apart',
    control: `expect(labelSelector(\`app=web\${','.repeat(8_000)}\`)(web)).toBe(true)`,
  },
  {
    attacker: 'tenant',
    attack: 'freeze the syncer by text on which a regular expression is slow',
    stoppedBy: 'each expression of the product is analysed',
    test: 'scripts/regexps.test.ts › take linear time on whatever text',
    control: '› are found to be slow when they are',
  },
  {
    attacker: 'tenant',
    attack: 'fill the memory of the syncer with the service variables of one pod',
    stoppedBy: 'they are counted before they are made: event `TooManyServiceVariables`',
    test: 'syncer/kinds/pods/admission.test.ts › refuses a pod whose containers would get megabytes of service variables',
    control:
      'expect(admission({ spec: { containers: containers.slice(0, 1) } }, over)).toEqual({ wanted: true })',
  },
  {
    attacker: 'tenant',
    attack: 'answer without end, too deep, too slow, or in a wrong shape',
    stoppedBy: 'limits in bytes, depth and time on everything read, and a check of its shape',
    test: 'kube/read-limits.test.ts › without end is not read to the end, on either kind of connection',
    control: '› that fits is read, and a call after one that did not fit is answered',
  },
  {
    attacker: 'tenant',
    attack: 'store so much that the syncer runs out of memory',
    stoppedBy: 'ConfigMaps and Secrets are followed as metadata; a budget of cached bytes per tenant',
    test: 'syncer/reconcile/payloads.test.ts › of a tenant are cached without what they hold',
    control: '› go down whole, and so does every change',
  },
  {
    attacker: 'tenant',
    attack: 'hang in every call, to hold the workers of the syncer',
    stoppedBy: 'sync rule `hanging-tenant`: its share of the workers, less while its calls take long',
    test: 'syncer/workqueue/fair-queue.test.ts › gives its workers back to the others as soon as its calls take long',
    control: `expect(held('hung')).toBe(3)`,
  },
  {
    attacker: 'tenant',
    attack: 'answer health checks and lie or fail in everything else, so that its condition stays good',
    stoppedBy: 'condition `Synced` with reason `CallsFail`',
    test: 'syncer/tenants/directory.test.ts › does not go on claiming agreement while calls fail',
    control: `await world.says('blue', 'Synced', 'True', 'Joined')`,
  },
  {
    attacker: 'tenant',
    attack: 'put a server of its own in the place of its core API, by the APIService `v1.`',
    stoppedBy: 'lists that are none are refused: nothing is deleted, `Synced` is `False`, others are served',
    test: 'test/safety.test.ts › keeps what a tenant has whose core API answers lies',
    control: `expect(message).toContain('the server sent no list')`,
  },
  {
    attacker: 'owner',
    attack: 'have a running syncer execute what a kubeconfig names, where it could write its Secret',
    stoppedBy: 'server, TLS name, CA and certificate are read, nothing else; `Synced` is `False`',
    test: 'test/safety.test.ts › runs nothing that a kubeconfig in a Secret names',
    control: `await condition(neighbour, 'Synced', 'True', 'Joined')`,
  },
  {
    attacker: 'tenant',
    attack: 'ask its API server for a certificate of `system:masters`',
    stoppedBy: 'admission of Kubernetes; no controller of a tenant signs',
    test: 'test/isolation.test.ts › no certificate of system:masters can be asked for',
    control: `expect(await ask('people', 'O=people, CN=eve')).toMatchObject({ metadata: { name: 'people' } })`,
  },
  {
    attacker: 'tenant',
    attack: 'write into the super cluster, the datastore or another tenant by webhooks that point there',
    stoppedBy: 'where root confines: no connection; else the other side: 401, or a client certificate',
    test: 'test/isolation.test.ts › webhooks of a tenant get nowhere',
    control: `expect(await said('attacker')).toContain('the attacker was here')`,
  },
  {
    attacker: 'tenant',
    attack:
      'have its API server dial servers of its machine that ask for no credentials, or learn which ports are open',
    stoppedBy: 'where root confines: rules of nftables; all but what is listed looks as if nobody listened',
    test: 'vc-manager/os/egress-filter.test.ts › lets a group reach what is listed',
    control: `expect(await dial('127.0.0.1', other)).toBe('connected')`,
  },
  {
    attacker: 'tenant',
    attack:
      "do so from a container of the compose driver, at another tenant's API server or a metadata address",
    stoppedBy: 'the same rules',
    test: 'test/docker/compose-manager.test.ts › has its API server dial what the operator lists',
    control: `(await answerOf('listed')).includes('reached')`,
  },
  {
    attacker: 'tenant',
    attack: 'do so by the conversion webhook of a CustomResourceDefinition',
    stoppedBy: 'the same; an answer that is no conversion is not shown',
    test: 'test/stepping-stones.test.ts › conversion webhooks reach what the operator lists',
    control: `expect(await readAs('listed')).toBe('webhook')`,
  },
  {
    attacker: 'tenant',
    attack: 'do so by a token that names an OIDC issuer',
    stoppedBy: 'issuers are named by the template alone; there the same rules',
    test: 'test/stepping-stones.test.ts › OIDC issuers are reached only where the template names them',
    control: `expect(known).toBe('oidc:eve')`,
  },
  {
    attacker: 'tenant',
    attack: "aggregate an API that is on the loopback of the API server's machine",
    stoppedBy: 'endpoints on loopback are refused by Kubernetes, and aggregation goes by endpoints',
    test: 'test/isolation.test.ts › aggregated APIs of a tenant are nowhere on the loopback',
    control: `await one.client.create(resources.endpointSlices, slice('192.0.2.1'))`,
  },
  {
    attacker: 'tenant',
    attack: 'do so from before the syncer starts, so that what an earlier one has said stays',
    stoppedBy: 'condition `Synced` with reason `CallsFail`, before the tenant is taken up too',
    test: 'syncer/tenants/directory.test.ts › does not go on claiming what a syncer before it has said',
    control: `await world.says('green', 'Synced', 'True', 'Joined')`,
  },
  {
    attacker: 'tenant',
    attack: "reach other tenants' pods, nodes, API servers of others and cloud metadata from a pod",
    stoppedBy: 'sync rule `tenant-isolation`, where NetworkPolicies are enforced',
    test: 'test/real-node/network-policies.test.ts › close the ways to nodes and to the API servers of others',
    control: `const closed = ['connected', `,
  },
  {
    attacker: 'tenant',
    attack: 'change NetworkPolicies in a loop, to get out between two of them',
    stoppedBy: 'pods are put back under the default before their own policy goes',
    test: 'syncer/controllers/network-isolation.test.ts › is back under those of the super cluster before its own goes',
    control: '› is left to that policy as soon as it is in force, and not before',
  },
  {
    attacker: 'tenant',
    attack: 'take the place of the policies that keep tenants apart by a policy of their name',
    stoppedBy: 'sync rule `reserved-names`',
    test: 'syncer/kinds/network-policies.test.ts › never takes the place of those that keep tenants apart',
    control: `expect(kind.superName?.('egress', testTenant())).toBe('egress')`,
  },
  {
    attacker: 'tenant',
    attack: 'find secrets in logs, events, metrics, arguments or output',
    stoppedBy: 'nothing writes them there',
    test: 'test/planted-secrets.test.ts › are in no log of any component',
    control: '› are found by the search where they belong',
  },
  {
    attacker: 'owner',
    attack: 'get more than its namespace may have by writing it into the VirtualCluster',
    stoppedBy: 'the policy of the namespace is a ceiling; the syncer reads the decision of the manager only',
    test: 'test/policy-ceiling.test.ts › without one, nothing can be had but the defaults',
    control: '› that a VirtualCluster may reach',
  },
  {
    attacker: 'owner',
    attack: 'have a kubeconfig with an exec plugin or a file path read, where it could write its Secret',
    stoppedBy: 'server, TLS name, CA and certificate are read, nothing else',
    test: 'syncer/tenants/credentials.test.ts › are refused if they would have us run something',
    control: '› are read from the Secret that the VirtualCluster names',
  },
  {
    attacker: 'owner',
    attack:
      'find the etcd key, an authority or the encryption key of a tenant in the Secrets of its namespace',
    stoppedBy: "they are in Skerry's own namespace",
    test: 'vc-manager/operator/tenant-secrets.test.ts › finds the kubeconfig of the admin and no other key',
    control: `expect(admin).toBe(pki['admin.key'])`,
  },
  {
    attacker: 'owner',
    attack: 'change authorities, or whom the syncer talks to, by writing Secrets in its namespace',
    stoppedBy: "manager and syncer read Skerry's own namespace only",
    test: 'vc-manager/operator/tenant-secrets.test.ts › changes nothing by Secrets under the names of earlier versions',
    control: '› are moved without a change to its control plane',
  },
  {
    attacker: 'owner',
    attack: 'have the syncer use the credentials of another tenant, by its status',
    stoppedBy: 'the Secret names the VirtualCluster that it was made for',
    test: 'syncer/tenants/credentials.test.ts › are refused if they were made for another VirtualCluster',
    control: '› are read from the Secret that the VirtualCluster names',
  },
  {
    attacker: 'owner',
    attack: 'claim the id of another VirtualCluster, to take its datastore and namespaces over',
    stoppedBy: 'an id belongs to one VirtualCluster',
    test: "vc-manager/operator/failures.test.ts › refuses an id that is another VirtualCluster's, and removes nothing of the other",
    control: '› takes the id that a restored VirtualCluster brings along',
  },
  {
    attacker: 'owner',
    attack: 'have the manager overwrite, or take over, a Secret that is not of this VirtualCluster',
    stoppedBy: 'Secrets are taken by owner and id only',
    test: 'vc-manager/operator/failures.test.ts › does not adopt the Secrets of an earlier VirtualCluster of that name',
    control: `await world.untilReady('a')`,
  },
  {
    attacker: 'tenant',
    attack:
      'answer lists with null, texts, objects without names, prototypes, nesting without end or no JSON',
    stoppedBy: "shapes are checked where answers are read; the tenant's reflector tries again, others go on",
    test: 'syncer/tenants/lying-server.test.ts › whose lists are',
    control: 'await expectServed()',
  },
  {
    attacker: 'tenant',
    attack: 'send watch events that are no JSON, about nothing, without metadata or with `__proto__` keys',
    stoppedBy: 'as for lists',
    test: 'syncer/tenants/lying-server.test.ts › whose watches send events',
    control: 'await expectServed()',
  },
  {
    attacker: 'tenant',
    attack: 'give namespaces names such as `../../kube-system`, that no API server takes',
    stoppedBy: 'names of super namespaces are made, with a hash; paths are encoded',
    test: 'syncer/tenants/lying-server.test.ts › whose namespaces have names such as',
    control: 'await expectServed()',
  },
  {
    attacker: 'tenant',
    attack: "give its objects marks, UIDs and owners that are another tenant's",
    stoppedBy: 'marks are written by the syncer and compared with the tenant that it reads from',
    test: 'syncer/tenants/lying-server.test.ts › that gives its namespaces the marks and UIDs of another tenant gets its own',
    control: `expect(made.metadata.labels?.[labelKeys.tenant]).toBe(uidOf('blue'))`,
  },
  {
    attacker: 'tenant',
    attack: 'answer a read of one object with another',
    stoppedBy: 'the answer has to be the object that was asked for',
    test: 'syncer/tenants/lying-server.test.ts › that answers a read with another object than was asked for',
    control: `toMatchObject({ data: { right: 'eA==' } })`,
  },
  {
    attacker: 'tenant',
    attack: 'send objects of any JSON, to have them written under the marks of others or to end the syncer',
    stoppedBy: 'sync rule `namespace-names`; what throws ends in a retry of that one object',
    test: 'syncer/reconcile/reconciler.fuzz.test.ts › are followed without an error that leaves the reconcile',
    control: 'expect(twin).toBeDefined()',
  },
  {
    attacker: 'tenant',
    attack: 'have namespaced objects without a namespace written into the super cluster',
    stoppedBy: 'they go nowhere',
    test: 'syncer/reconcile/reconciler.test.ts › an object without a namespace, as no server of Kubernetes has it, goes nowhere',
    control: `expect(bench.asked('super')).toEqual(['create networkpolicies'])`,
  },
  {
    attacker: 'tenant',
    attack: 'have the syncer build an object that is larger than memory',
    stoppedBy: 'what is longer than 3 MiB is refused before it is text: event `SyncRefused`',
    test: 'kube/client.test.ts › refuses to send what no server takes, before it is text',
    control: 'await client.create(resources.pods, { metadata: ref, spec: [part] })',
  },
  {
    attacker: 'tenant',
    attack: 'have the syncer compare each of many nodes with each of many pods for `kubectl top nodes`',
    stoppedBy: 'pods are sorted by node once',
    test: 'syncer/kubelet/metrics-api.test.ts › are put together without looking at every pod for every node',
    control: 'expect(JSON.parse(body).items).toHaveLength(count)',
  },
  {
    attacker: 'tenant',
    attack: 'send paths of any bytes and encodings to the kubelet proxy',
    stoppedBy: 'names are decoded once and must be names',
    test: 'syncer/kubelet/request-path.fuzz.test.ts › any path names a pod by names alone',
    control: 'expect(pods).toBeGreaterThan(0)',
  },
  {
    attacker: 'owner',
    attack: 'have any text or YAML read as a kubeconfig',
    stoppedBy: 'server, TLS name, CA and certificate are read, all else is refused by an error with a code',
    test: 'kube/kubeconfig.fuzz.test.ts › of any YAML is a plain connection or refused',
    control: 'expect(taken).toBeGreaterThan(0)',
  },
  {
    attacker: 'owner',
    attack: 'have the text of a Secret repeated in logs by breaking its YAML',
    stoppedBy: 'neither warnings nor errors repeat it',
    test: 'kube/kubeconfig.test.ts › repeats nothing of a text that it cannot read',
    control: `expect(inspect(parseDocument(text))).toContain('planted-secret')`,
  },
  {
    attacker: 'tenant',
    attack: 'have more pods than it may by many workloads that race in several namespaces',
    stoppedBy: 'quota, reserved before a write is sent',
    test: 'test/quota.test.ts › is never exceeded by twenty Deployments in two namespaces that race',
    control: 'expect(most).toBe(40)',
  },
  {
    attacker: 'tenant',
    attack: 'fill the datastore of all tenants with objects of its own',
    stoppedBy: 'quotas `datastore.keys` and `datastore.bytes`: beyond them its API server only deletes',
    test: 'test/quota.test.ts › stops it from filling the datastore of all, not from deleting',
    control: 'for (let index = 0; index < 8; index++) await create(index, stuffing)',
  },
  {
    attacker: 'owner',
    attack:
      'fill the datastore of all tenants by a move into it, a restore, or new tenants of a large snapshot',
    stoppedBy: 'the same quotas, counted before anything is stopped and while it is written',
    test: 'vc-manager/operator/move.test.ts › into the shared datastore is refused beyond the quota before anything is stopped',
    control: 'expect(world.datastore.entries.get(id())).toHaveLength(3)',
  },
  {
    attacker: 'tenant',
    attack: 'fill the datastore of all tenants with the history of one object',
    stoppedBy: 'history that grows fast is compacted early',
    test: 'vc-manager/operator/datastore-watch.test.ts › compacts history early where space is short',
    control: 'expect(datastore.compacted).toEqual([])',
  },
  {
    attacker: 'tenant',
    attack: 'write large objects in a loop, to fill the history of the datastores',
    stoppedBy: 'quota `writes.bytes-per-minute`, a budget of its own for each tenant',
    test: 'syncer/quota/quota-admission.test.ts › makes a loop of large writes wait, and not another tenant',
    control: 'await sides.until(() => sides.super.server.get(resources.configMaps, theirs) !== undefined)',
  },
  {
    attacker: 'tenant',
    attack: 'make an object grow after it was let in: resize, expansion, another type of Service',
    stoppedBy: 'changes are judged by the quota, too',
    test: 'syncer/quota/quota-admission.test.ts › judges what makes an object grow',
    control: `await roomy.until(() => typeOf(roomy) === 'LoadBalancer')`,
  },
  {
    attacker: 'tenant',
    attack: 'compact, defragment, copy or downgrade the datastore, or change its users and members',
    stoppedBy: 'rights of its etcd user',
    test: 'vc-manager/etcd/tenant-reach.test.ts › is refused what concerns the whole store',
    control: `expect(await as('blue', 'KV/Range', { 1: '/tenants/blue/x' })).toBe(0)`,
  },
  {
    attacker: 'tenant',
    attack: 'end leases of others in the datastore, or raise an alarm that stops all writes',
    stoppedBy: 'rights of its etcd user',
    test: 'vc-manager/etcd/tenant-reach.test.ts › neither raises an alarm, which would stop all writes',
    control: 'expect(await alarms()).toHaveLength(1)',
  },
  {
    attacker: 'tenant',
    attack: 'kill one replica of the syncer after the other, each as it takes the tenant up',
    stoppedBy: 'a tenant that was being taken up when a replica died joins last, in the end alone',
    test: 'syncer/tenants/join-order.test.ts › stops the others a few times, and then no more',
    control: 'expect(counts[0]).toBeLessThan(innocent.length)',
  },
  {
    attacker: 'tenant',
    attack: 'do so at any later time, by work that never ends or takes all memory',
    stoppedBy: 'a second thread notes on the tenant that the replica is stuck in work for it',
    test: 'syncer/watchdog/watchdog.test.ts › has that noted on the tenant while it is stuck, and on no other',
    control: `expect(said()).toBe('begins\\n')`,
  },
  {
    attacker: 'owner',
    attack: 'take over or delete what an orphaned tenant has left, by writing its id on a VirtualCluster',
    stoppedBy: "the tenant's etcd certificate as proof",
    test: 'vc-manager/operator/failures.test.ts › gives what is left under an id only to a VirtualCluster that has its key',
    control: `expect((await world.untilReady('a')).status?.id).toBe(id)`,
  },
  {
    attacker: 'owner',
    attack:
      "put a plugin, or names of other clusters, into the tenant's kubeconfig for whoever uses it as the operator",
    stoppedBy:
      'commands and dashboard take server, CA and client certificate from it, under names of their own',
    test: 'vc-manager/cli/program.test.ts › takes no plugin from a Secret that the owner has changed, and no other names',
    control: `expect(await run('kubeconfig', 'blue')).toEqual({ exitCode: 0, stdout: text, stderr: '' })`,
  },
  {
    attacker: 'tenant',
    attack: "fill the syncer's memory by the output of many commands at once",
    stoppedBy: 'two of a tenant and eight of all at once, each with a limit of bytes and of time',
    test: 'syncer/kubelet/pod-streams.test.ts › is one of two of a tenant and eight of all',
    control: `expect(await ask(there)).toMatchObject({ status: 200, body: 'one' })`,
  },
  {
    attacker: 'tenant',
    attack: 'stop the syncer by a change of one policy among thousands of policies and pods',
    stoppedBy: 'it looks at pods that the policy holds for only, in turns with everything else',
    test: 'syncer/controllers/network-isolation.test.ts › is looked at among thousands in turns',
    control: 'expect(patched.length).toBe(21)',
  },
  {
    attacker: 'tenant',
    attack:
      'have each pod compared with thousands of policies of its namespace, or with one of endless selectors',
    stoppedBy: 'where tenants are isolated, 500 policies of a namespace go down, of selectors of 200 terms',
    test: 'syncer/kinds/network-policies.test.ts › leaves behind more than 500 of a namespace',
    control: 'expect(admitted(there(499))?.wanted).toBe(true)',
  },
  {
    attacker: 'tenant',
    attack: 'have each look at one of thousands of objects judge many large pods that refer to it',
    stoppedBy: 'a pod is judged once for each version of it',
    test: 'syncer/kinds/pods/admission.test.ts › is found once for each object of it',
    control: 'expect(once).toBeGreaterThan(0)',
  },
  {
    attacker: 'tenant',
    attack: 'have each look sort thousands of default classes or Services',
    stoppedBy: 'they are sorted once for each change of one',
    test: 'syncer/kinds/remembered.test.ts › is the default class: made once until a class changes',
    control: 'expect(reads).toHaveBeenCalledTimes(5)',
  },
  {
    attacker: 'tenant',
    attack: 'keep the syncer comparing its two sides',
    stoppedBy: 'a comparison rests as long as it has worked, after five milliseconds or one look',
    test: 'syncer/reconcile/resync.test.ts › rests as long as it has worked',
    control: 'expect(rests).toEqual([5, 300, 5])',
  },
  {
    attacker: 'tenant',
    attack:
      'keep what its policy does not allow any more, by stopping or holding its own deletions, or by not answering',
    stoppedBy: 'sync rule `policy-over-holds`: the super object itself is held to the policy',
    test: 'syncer/reconcile/policy-over-holds.test.ts › keeps an Ingress of a host that it may have, and loses it with the host',
    control: `expect(inSuper(bench, 'ingresses')).toBeDefined()`,
  },
  {
    attacker: 'tenant',
    attack: 'keep the address of a pod that is gone in an EndpointSlice, until another tenant has it',
    stoppedBy: 'sync rule `policy-over-holds`',
    test: 'syncer/reconcile/policy-over-holds.test.ts › a slice loses the address of a pod when that is gone, and nothing before',
    control: `expect(inSuper(bench, 'endpointSlices')?.['endpoints']).toHaveLength(1)`,
  },
  {
    attacker: 'tenant',
    attack: 'have the pods of others wait beside a burst of its own',
    stoppedBy:
      'sync rule `backlog-gives-way`: the burst goes down a few pods at a time while pods of others come',
    test: 'syncer/reconcile/fairness.test.ts › gets two at a time of a tenant with much to do while those of another find a place at once',
    control: 'expect(created(sides)).toHaveLength(1 + places)',
  },
  {
    attacker: 'tenant',
    attack: 'have what its policy demands wait behind work that it makes itself, or behind calls that hang',
    stoppedBy: 'such work goes first, and asks nothing of its server',
    test: 'syncer/reconcile/fairness.test.ts › is done within the turns of the workers, though the tenant has 2,000 ConfigMaps waiting',
    control: `expect(sides.made).not.toContain('super create configmaps last')`,
  },
  {
    attacker: 'tenant',
    attack:
      "enter a debug container of the operator's people, by one of its name that the super cluster refuses",
    stoppedBy: "a container is marked as the tenant's when it is there, not before",
    test: 'syncer/reconcile/engine.test.ts › of a debug container that is refused open none of its name',
    control: 'syncer/kinds/pods/updates.test.ts › wait for what they refer to, as far as the tenant has it',
  },
  {
    attacker: 'tenant',
    attack: 'hold more commands than that by many requests on one connection',
    stoppedBy: 'a second request before the first is answered ends the connection',
    test: 'syncer/kubelet/pod-streams.test.ts › ends with its connection when another is asked for',
    control:
      'expect(await Promise.all([ask(there), ask(there)])).toMatchObject([{ status: 200 }, { status: 200 }])',
  },
  {
    attacker: 'tenant',
    attack: "keep the manager's workers by lists without end as it is to fall asleep",
    stoppedBy: 'all of them together may take a minute, and then others have five times as long',
    test: 'vc-manager/operator/steps/sleep.test.ts › a tenant whose API server lists without end',
    control:
      'vc-manager/operator/sleep.test.ts › is stopped on request, left alone while it sleeps, and started when somebody connects',
  },
  {
    attacker: 'owner',
    attack: 'stop the manager by a schedule of sleep that the change of the clocks leaves out',
    stoppedBy: 'runs are looked for in the years around alone',
    test: 'vc-manager/operator/sleep-schedule.test.ts › is looked for in the years around',
    control: "expect(times({ at: '0 0 29 2 *' }, '2026-10-23T18:00:00Z').asleep)",
  },
  {
    attacker: 'tenant',
    attack: "take the syncer's memory by ConfigMaps of a hundred thousand short keys each",
    stoppedBy: 'names of the first keys alone are kept',
    test: 'syncer/kinds/payload.test.ts › has the keys of its data, and of very many the first alone',
    control: "expect(summaryOf({ B: '1', A: '2' }).keys).toEqual(['B', 'A'])",
  },
  {
    attacker: 'owner',
    attack: 'stop the manager by 200,000 short keys in the Secret with the kubeconfig',
    stoppedBy: 'no more than 32 KiB of it are parsed, and keys are not compared with each other',
    test: 'kube/kubeconfig.test.ts › is not parsed when it is larger than any that is written',
    control: `expect(parseKubeconfig(larger)['current-context']).toBe('blue')`,
  },
  {
    attacker: 'tenant',
    attack: 'take memory by answers and events that come one byte at a time, each with 64 KiB behind it',
    stoppedBy: 'small pieces are copied together as they come',
    test: 'kube/chunks.test.ts › bytes each take little more than their bytes',
    control: '› are not copied when there is one, and once when they are large',
  },
];

const names: Readonly<Record<Attacker, string>> = {
  tenant: 'tenant admin',
  owner: 'owner of a VirtualCluster',
  network: 'anyone who gets there',
};

/** The table of `docs/security.md`, in Markdown. */
export function attemptsTable(): string {
  const rows = attempts.map(({ attacker, attack, stoppedBy, test }) => {
    const [path = ''] = test.split(' › ');
    return `| ${names[attacker]} | ${attack} | ${stoppedBy} | \`${path}\` |`;
  });
  return ['| who | tries to | what stops it | shown by |', '| --- | --- | --- | --- |', ...rows].join('\n');
}
