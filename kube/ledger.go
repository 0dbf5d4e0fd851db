// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/core/cycle"
	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/core/model"
)

// state is where a pod is between its creation and its end.
type state int8

// States of an entry; see Ledger.
const (
	stateWaiting state = iota
	statePromised
	stateAssumed
	stateBound
	stateReleased
)

func (s state) String() string {
	return [...]string{"waiting", "promised", "assumed", "bound", "released"}[s]
}

// Ledger is the account of who holds what, keyed by pod UID. It is the one
// writer of the model.Cluster and safe for concurrent use.
//
//	          Decide places it          Assume             ConfirmBound, or
//	         (or: nominated when       (bind in            the pod is seen
//	          first seen)               flight)            on its node
//	waiting ───────────────► promised ─────────► assumed ─────────► bound
//	   ▲                        │  ▲                │                 │
//	   │ withdrawn, refused by  │  └────────────────┘                 │
//	   └────────────────────────┘   Forget, or read back unbound      │
//	     the scheduler, deleted                                       ▼
//	                                      ended (Succeeded, Failed): released
//
// From every state: the pod is gone from the API server → no entry. Bound by
// somebody else → bound. A deletion timestamp alone frees a promise, which
// nobody uses yet, but nothing assumed or bound. An assumed pod whose bind ended
// without a clear answer stays assumed until it is read back. Bound and released
// are for ever: an event that arrives late cannot undo them.
//
// A gated pod is waiting or promised; its gate is removed once it is promised
// and nothing has to end on its node first.
type Ledger struct {
	config Config
	clock  func() time.Time
	log    *slog.Logger

	mu      sync.Mutex
	cluster *model.Cluster
	pods    map[string]*entry // by UID
	index   index
	names   map[string]string // namespace/name → UID
	nodes   map[string]nodeFacts
	asked   map[string]offer // by node, of assumed and bound pods
	queues  map[string]*v1alpha1.Queue
	divided map[string]bool
	// workloads by key; dirty ones are translated again before the next use.
	workloads map[string]*workload
	// memberships are what the owners of pods say, by UID; a pod may come later
	// than what is known of it.
	memberships map[string]*Membership
	dirty       map[string]bool
	// degraded are the gangs whose grace runs, by key.
	degraded map[string]*workload
	// shown are the PodGroups that show derived gangs, by the gang's key, and
	// podlessSince (nanoseconds) when a gang was first seen without a pod.
	shown        map[string]*v1alpha1.PodGroup
	podlessSince map[string]int64
	namespaces   map[string]string // → its queue label
	priorities   map[string]int32  // by PriorityClass
	// defaultPriority is that of the global default class, nil without one.
	defaultPriority *int32
	defaultClass    string
	budgets         map[string]*budget
	// unbudgeted are namespaces in which it may have changed which pods the
	// budgets cover; protection is the same for pods whose eviction was refused.
	unbudgeted      map[string]bool
	protectionDirty bool

	// seq counts changes; decided is seq at the last decision, so that a pod
	// whose change is later has not been considered.
	seq, decided uint64
	cycles       uint64
	lastDuration time.Duration
	reports      []cycle.QueueReport
	holds        map[string]*hold // by UID of the moved pod
	usage        usageBook
	restraint    restraint
	// turned are nodes whose kubelets refused pods, by line of pods and node.
	turned      map[string]map[string]turnedAway
	troubles    map[string]string
	newTroubles map[string]Trouble

	// arrivals are closed when the pod of that UID comes.
	arrivals map[string]chan struct{}
	unsynced map[string]bool // informers that have not delivered all yet
	changed  chan struct{}
}

// entry is one pod's account.
type entry struct {
	facts *podFacts
	state state
	node  string
	held  []model.HeldGPU
	// awaits are the UIDs of pods that must end before the promise can be
	// used.
	awaits []string
	// since is when the state was entered, in nanoseconds.
	since    int64
	seq      uint64
	workload *workload // nil for a pod that no queue or group concerns

	// planReason is why the last plan left the pod waiting.
	planReason *explain.Reason
	position   int
	// refusal is kube-scheduler's message when the promise became usable, which
	// was at usable (nanoseconds, 0 while it is not): another one later means
	// that it refused the promised node.
	refusal  string
	usable   int64
	excluded map[string]exclusion
	// failures counts binds that did not happen, blockedUntil (nanoseconds) is
	// the back-off after them.
	failures     int
	blockedUntil int64
	// sentence is the plan's eviction of the pod, nil for none.
	sentence *cycle.Eviction
	// counted is true once the eviction is on the record of the workload;
	// record is that of the pod that this one stands in for.
	counted bool
	record  record
	// protectedUntil (nanoseconds) keeps a pod whose eviction was refused from
	// being a victim, refused is the sentence that says so.
	protectedUntil int64
	refused        string
	// plight is why the eviction of the pod fails, which is tried again.
	plight string
	// leaving is seq when the pod was first seen to be deleted, 0 before.
	leaving uint64
	stuck   bool
	fed     bool // is in the cluster
	// past members ended in an earlier run of their PodGroup.
	past bool
	// standsFor is the UID of the moved pod whose place this one was given.
	standsFor string
}

// exclusion is a node that kube-scheduler refused for the pod. It is remembered for
// a while after it is over: another refusal of the node counts as one more.
type exclusion struct {
	until int64
	times int
	over  bool
}

// Trouble is something wrong with an object, for one event and one line in the
// log.
type Trouble struct {
	Kind, Namespace, Name string
	Message               string
}

// errNotSynced is what Ready returns until the first lists are complete.
var errNotSynced = errors.New("the first lists from the API server are not complete yet")

// NewLedger returns an empty ledger. clock gives the time of decisions.
// sources must each be marked by Synced before Ready returns nil.
func NewLedger(config Config, clock func() time.Time, log *slog.Logger, sources ...string) *Ledger {
	config.Settings.PreemptionDelay = int64(config.PreemptionDelay)
	l := &Ledger{
		config: config, clock: clock, log: log,
		cluster:      model.NewCluster(config.Settings),
		pods:         map[string]*entry{},
		index:        newIndex(),
		names:        map[string]string{},
		nodes:        map[string]nodeFacts{},
		asked:        map[string]offer{},
		queues:       map[string]*v1alpha1.Queue{},
		divided:      map[string]bool{},
		workloads:    map[string]*workload{},
		memberships:  map[string]*Membership{},
		dirty:        map[string]bool{},
		degraded:     map[string]*workload{},
		shown:        map[string]*v1alpha1.PodGroup{},
		podlessSince: map[string]int64{},
		namespaces:   map[string]string{},
		priorities:   map[string]int32{},
		budgets:      map[string]*budget{},
		unbudgeted:   map[string]bool{},
		holds:        map[string]*hold{},
		troubles:     map[string]string{},
		newTroubles:  map[string]Trouble{},
		arrivals:     map[string]chan struct{}{},
		unsynced:     map[string]bool{},
		changed:      make(chan struct{}, 1),
		usage:        newUsageBook(config),
		restraint:    newRestraint(),
		turned:       map[string]map[string]turnedAway{},
	}
	for _, s := range sources {
		l.unsynced[s] = true
	}
	return l
}

// Changed receives after something changed that a decision depends on. One
// receive may stand for many changes.
func (l *Ledger) Changed() <-chan struct{} { return l.changed }

// Synced notes that a source has delivered its first list.
func (l *Ledger) Synced(source string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.unsynced, source)
	for key := range l.workloads {
		l.dirty[key] = true // nobody looked at gangs before all was listed
	}
	l.note()
}

// Ready is nil once the ledger has seen the whole API server.
func (l *Ledger) Ready() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.unsynced) > 0 {
		return errNotSynced
	}
	return nil
}

// Version changes whenever anything changes that status is written from.
func (l *Ledger) Version() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seq + l.cycles
}

// Troubles returns what was found wrong since the last call and still is, each
// object once.
func (l *Ledger) Troubles() []Trouble {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Trouble
	for _, key := range slices.Sorted(maps.Keys(l.newTroubles)) {
		out = append(out, l.newTroubles[key])
	}
	clear(l.newTroubles)
	return out
}

// note records a change.
func (l *Ledger) note() {
	l.seq++
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// trouble records what is wrong with an object; "" clears it.
func (l *Ledger) trouble(kind, namespace, name, message string) {
	key := kind + "/" + namespace + "/" + name
	if message == "" {
		delete(l.troubles, key)
		delete(l.newTroubles, key)
		return
	}
	if l.troubles[key] == message {
		return
	}
	l.troubles[key] = message
	l.newTroubles[key] = Trouble{kind, namespace, name, message}
	l.log.Warn("object cannot be used as it is", "kind", kind, "namespace", namespace, "name", name, "trouble", message)
}

func (l *Ledger) now() int64 { return l.clock().UnixNano() }
