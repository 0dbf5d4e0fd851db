// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/cycle"
	"github.com/fairslice/fairslice/core/model"
)

const second = int64(1_000_000_000)

// tester is what a world needs of *testing.T and *rapid.T.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// world is a cluster that obeys its plans: placements bind at once or wait,
// victims leave after a while and come back if something recreates them.
type world struct {
	t   tester
	c   *model.Cluster
	now int64
	// pods that exist, by UID; made counts the pods ever made of a workload.
	pods map[string]*model.Pod
	made map[string]int
	jobs map[string]job // by workload key
	// leaves is when a releasing pod is gone; grace how long a workload's pods
	// take, a second if unset.
	leaves, grace map[string]int64
	replaced      map[string]string // by releasing pod the stand-in that will follow it
	// evicted counts evictions by workload.
	evicted map[string]int
	// minAvailable are disruption budgets by job.
	minAvailable map[string]int
	plan         cycle.Plan
}

func newWorld(t tester) *world {
	s := model.DefaultSettings()
	w := &world{
		t: t, c: model.NewCluster(s), now: 1_000_000 * second, pods: map[string]*model.Pod{}, made: map[string]int{}, jobs: map[string]job{},
		leaves: map[string]int64{}, grace: map[string]int64{}, replaced: map[string]string{}, evicted: map[string]int{},
		minAvailable: map[string]int{},
	}
	w.c.SetNow(w.now)
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%v", err)
	}
}

// node adds a node with whole GPUs of 16 GiB and changes.
func (w *world) node(name string, gpus int, set ...func(*model.Node)) {
	w.t.Helper()
	n := model.Node{
		Name: name, Ready: true, Labels: map[string]string{"name": name},
		Allocatable: model.Quantities{"cpu": 1_000_000, "memory": 1 << 50, "pods": 110},
	}
	for i := range gpus {
		n.GPUs = append(n.GPUs, model.GPU{ID: fmt.Sprint(i), Model: "A", MemoryMiB: 16384, Healthy: true, Shareable: true})
	}
	for _, f := range set {
		f(&n)
	}
	w.must(w.c.SetNode(n))
}

func cpu(milli amount.Amount) func(*model.Node) {
	return func(n *model.Node) { n.Allocatable["cpu"] = milli }
}

func label(key, value string) func(*model.Node) {
	return func(n *model.Node) { n.Labels[key] = value }
}

// queue adds a queue of weight 1 without quota, then changes it.
func (w *world) queue(name string, set ...func(*model.Queue)) {
	w.t.Helper()
	q := model.Queue{
		Name: name, Priority: 100, Quota: model.Quantities{"gpu": 0}, Limit: model.Quantities{},
		OverQuotaWeight: model.Quantities{"gpu": 1}, PreemptMinRuntime: -1, ReclaimMinRuntime: -1,
	}
	for _, f := range set {
		f(&q)
	}
	w.must(w.c.SetQueue(q))
}

func quota(gpus int) func(*model.Queue) {
	return func(q *model.Queue) { q.Quota["gpu"] = amount.Amount(gpus) * 1000 }
}

func limit(gpus int) func(*model.Queue) {
	return func(q *model.Queue) { q.Limit["gpu"] = amount.Amount(gpus) * 1000 }
}

func weight(x int) func(*model.Queue) {
	return func(q *model.Queue) { q.OverQuotaWeight["gpu"] = amount.Amount(x) }
}

func parent(name string) func(*model.Queue) {
	return func(q *model.Queue) { q.Parent = name }
}

// job is a workload to submit; its pods are alike.
type job struct {
	name, queue string
	pods        int // 0 is 1
	gpus        int // whole GPUs of each
	milli       int64
	cpu, memMiB amount.Amount
	gang        int // minimum; 0 is 1 for one pod each
	priority    int32
	firm        bool // not preemptible
	recreated   bool
	nodeLabel   map[string]string
	node        string // the pods run there already
	age         int64  // seconds
}

// submit adds a job and its pods.
func (w *world) submit(j job) {
	w.t.Helper()
	n, minimum := max(1, j.pods), max(1, j.gang)
	spec := model.Workload{
		Key: "ns/" + j.name, Queue: j.queue, Priority: j.priority, Preemptible: !j.firm, MinMember: minimum,
		CreatedAt: w.now - j.age*second, PendingSince: w.now - j.age*second, Recreated: j.recreated, StaleGrace: -1,
	}
	if j.node != "" {
		spec.StartedAt = spec.CreatedAt
	}
	w.must(w.c.SetWorkload(spec))
	for range n {
		w.makePod(j)
	}
	w.jobs[spec.Key] = j
}

// makePod adds one pod of a job, where the job says or pending.
func (w *world) makePod(j job) *model.Pod {
	w.t.Helper()
	key := "ns/" + j.name
	p := &model.Pod{
		UID: fmt.Sprintf("%s-%03d", j.name, w.made[key]), Workload: key, State: model.Pending, CreatedAt: w.now - j.age*second,
		Request: model.Quantities{}, Node: j.node, Labels: map[string]string{"job": j.name},
	}
	p.Name = p.UID
	w.made[key]++
	if j.cpu > 0 {
		p.Request["cpu"] = j.cpu
	}
	switch {
	case j.gpus > 0:
		p.Claims = []model.GPUClaim{{Name: "c", Kind: model.WholeGPU, Count: j.gpus}}
	case j.milli > 0:
		p.Claims = []model.GPUClaim{{Name: "c", Kind: model.GPUSlice, Count: 1, Milli: j.milli}}
	case j.memMiB > 0:
		p.Claims = []model.GPUClaim{{Name: "c", Kind: model.GPUMemory, Count: 1, MemoryMiB: int64(j.memMiB)}}
	}
	var term []model.Requirement
	for _, k := range slices.Sorted(maps.Keys(j.nodeLabel)) {
		term = append(term, model.Requirement{Key: k, Op: model.OpIn, Values: []string{j.nodeLabel[k]}})
	}
	if term != nil {
		p.NodeTerms = [][]model.Requirement{term}
	}
	if p.Node != "" {
		p.State = model.Bound
	}
	w.pods[p.UID] = p
	w.must(w.c.SetPod(*p))
	return p
}

// cycle lets a second pass, decides and does what the plan says. It says whether
// anything happened.
func (w *world) cycle() bool {
	w.t.Helper()
	w.now += second
	w.c.SetNow(w.now)
	changed := w.leave()
	if len(w.minAvailable) > 0 {
		w.c.SetBudgets(w.budgets())
	}
	w.plan = cycle.Decide(w.c)
	if again := cycle.Decide(w.c); !reflect.DeepEqual(w.plan, again) {
		w.t.Fatalf("the same cluster gives two plans:\n%+v\n%+v", w.plan, again)
	}
	w.checkPlan()
	for _, uid := range w.plan.Withdrawn {
		if w.pods[uid].StandIn {
			w.dropStandIn(uid)
			continue
		}
		w.change(uid, func(p *model.Pod) { p.State, p.Node, p.Held = model.Pending, "", nil })
		changed = true
	}
	for _, e := range w.plan.Evictions {
		w.evict(e)
		changed = true
	}
	for _, x := range w.plan.Placements {
		changed = w.place(x) || changed
	}
	w.checkCluster()
	return changed
}

// budgets says how many pods of each budget may go now.
func (w *world) budgets() (budgets []model.DisruptionBudget) {
	for _, name := range slices.Sorted(maps.Keys(w.minAvailable)) {
		b := model.DisruptionBudget{Key: "ns/" + name, Allowed: max(0, w.running(name)-w.minAvailable[name])}
		for _, uid := range slices.Sorted(maps.Keys(w.pods)) {
			if w.pods[uid].Workload == "ns/"+name {
				b.Pods = append(b.Pods, uid)
			}
		}
		budgets = append(budgets, b)
	}
	return budgets
}

// leave removes pods whose time is over.
func (w *world) leave() bool {
	changed := false
	for _, uid := range slices.Sorted(maps.Keys(w.leaves)) {
		if w.leaves[uid] > w.now {
			continue
		}
		p := w.pods[uid]
		w.remove(uid)
		spec, ok := w.c.Workload(p.Workload)
		switch follows := w.pods[w.replaced[uid]]; {
		case follows != nil:
			w.change(follows.UID, func(p *model.Pod) { p.StandIn = false })
		case ok && spec.Recreated:
			w.recreateLike(p)
		}
		changed = true
	}
	return changed
}

// dropStandIn forgets where a moved pod was to go: it waits once it is gone.
func (w *world) dropStandIn(uid string) {
	w.remove(uid)
	for releasing, follows := range w.replaced {
		if follows == uid {
			delete(w.replaced, releasing)
			w.change(releasing, func(p *model.Pod) { p.Returns = true })
		}
	}
}

func (w *world) recreate(workload string) *model.Pod {
	j := w.jobs[workload]
	j.node, j.age = "", 0
	return w.makePod(j)
}

// recreateLike makes a pod of the same sub-group.
func (w *world) recreateLike(old *model.Pod) *model.Pod {
	p := w.recreate(old.Workload)
	w.change(p.UID, func(p *model.Pod) { p.SubGroup = old.SubGroup })
	return p
}

func (w *world) remove(uid string) {
	delete(w.pods, uid)
	delete(w.leaves, uid)
	w.c.RemovePod(uid)
}

func (w *world) change(uid string, f func(*model.Pod)) {
	w.t.Helper()
	p := w.pods[uid]
	if p == nil {
		w.t.Fatalf("the plan names pod %s, which does not exist", uid)
	}
	f(p)
	w.must(w.c.SetPod(*p))
}

func (w *world) evict(e cycle.Eviction) {
	w.t.Helper()
	w.evicted[strings.TrimPrefix(e.Workload, "ns/")]++
	grace, set := w.grace[strings.TrimPrefix(e.Workload, "ns/")]
	if !set {
		grace = second
	}
	w.change(e.Pod, func(p *model.Pod) { p.State, p.Returns = model.Releasing, e.MoveTo == nil })
	w.leaves[e.Pod] = w.now + grace
	if e.MoveTo != nil {
		p := w.recreateLike(w.pods[e.Pod])
		w.replaced[e.Pod] = p.UID
		w.change(p.UID, func(p *model.Pod) {
			p.State, p.StandIn, p.Node, p.Held = model.Promised, true, e.MoveTo.Node, e.MoveTo.GPUs
		})
	}
}

// place obeys a placement and says whether it was news.
func (w *world) place(x cycle.Placement) bool {
	w.t.Helper()
	if w.pods[x.Pod].StandIn {
		return false
	}
	state := model.Bound
	if len(x.Awaits) > 0 {
		state = model.Promised
	}
	news := false
	w.change(x.Pod, func(p *model.Pod) {
		news = p.State != state || p.Node != x.Node || !slices.Equal(p.Held, x.GPUs)
		p.State, p.Node, p.Held = state, x.Node, x.GPUs
	})
	if spec, ok := w.c.Workload(x.Workload); ok && news && state == model.Bound && w.running(strings.TrimPrefix(x.Workload, "ns/")) == 1 {
		spec.StartedAt = w.now
		w.must(w.c.SetWorkload(spec))
	}
	return news
}

// settle runs cycles until nothing has happened for three of them.
func (w *world) settle() {
	w.t.Helper()
	quiet := 0
	for range 200 {
		if w.cycle() {
			quiet = 0
		} else if quiet++; quiet == 3 {
			return
		}
	}
	w.t.Fatalf("not settled after 200 cycles; last plan %+v", w.plan)
}

// finish ends all pods of a job.
func (w *world) finish(name string) {
	for _, uid := range slices.Sorted(maps.Keys(w.pods)) {
		if w.pods[uid].Workload == "ns/"+name {
			w.remove(uid)
		}
	}
	w.c.RemoveWorkload("ns/" + name)
}

// running counts the bound pods of a job, on any node or on some.
func (w *world) running(name string, nodes ...string) (n int) {
	for _, p := range w.pods {
		if p.Workload == "ns/"+name && p.State == model.Bound && (len(nodes) == 0 || slices.Contains(nodes, p.Node)) {
			n++
		}
	}
	return n
}

// wantRunning is a MUST line about running pods by job.
func (w *world) wantRunning(must string, want map[string]int) {
	w.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got := w.running(name); got != want[name] {
			w.t.Errorf("MUST: %s; %s has %d running pods, want %d", must, name, got, want[name])
		}
	}
}

// wantEvicted is a line about all evictions so far, by job.
func (w *world) wantEvicted(line string, want map[string]int) {
	w.t.Helper()
	if !maps.Equal(w.evicted, want) {
		w.t.Errorf("%s; evicted %v, want %v", line, w.evicted, want)
	}
}

// reason is why a job waits, "" if it does not.
func (w *world) reason(name string) string {
	for _, x := range w.plan.Waits {
		if x.Workload == "ns/"+name {
			return string(x.Reason.Code) + ": " + x.Reason.Message
		}
	}
	return ""
}

// wantReason is a MUST line about why a job waits.
func (w *world) wantReason(name string, parts ...string) {
	w.t.Helper()
	got := w.reason(name)
	for _, part := range parts {
		if !strings.Contains(got, part) {
			w.t.Errorf("MUST: %s waits with a reason that says %q; got %q", name, part, got)
		}
	}
}

// used is what a queue holds, in thousandths of a GPU.
func (w *world) used(queue string) amount.Amount {
	w.t.Helper()
	t := w.c.Tree()
	q, ok := t.Index(queue)
	if !ok {
		w.t.Fatalf("no queue %s", queue)
	}
	return t.Queues[q].Allocated[model.AtGPU]
}

// checkPlan is what every plan must keep: each pod is placed and evicted at most
// once, and nothing is evicted for nothing.
func (w *world) checkPlan() {
	w.t.Helper()
	placed, evicted := map[string]bool{}, map[string]bool{}
	workloads := map[string]bool{}
	for _, x := range w.plan.Placements {
		if placed[x.Pod] {
			w.t.Errorf("NEVER: pod %s is placed twice", x.Pod)
		}
		placed[x.Pod], workloads[x.Workload] = true, true
	}
	for _, e := range w.plan.Evictions {
		if evicted[e.Pod] || placed[e.Pod] {
			w.t.Errorf("NEVER: pod %s is evicted twice, or placed and evicted", e.Pod)
		}
		evicted[e.Pod] = true
		if e.Rule != cycle.RuleStaleGang && !workloads[e.For] {
			w.t.Errorf("NEVER: %s is evicted for %s, which gets no place", e.Pod, e.For)
		}
	}
}

// checkCluster is what every state must keep.
func (w *world) checkCluster() {
	w.t.Helper()
	t := w.c.Tree()
	for i := range t.Queues {
		q := &t.Queues[i]
		for r, held := range q.Allocated {
			if held < 0 || held > q.Limit[r] {
				w.t.Errorf("NEVER: queue %s holds %d of %s, limit %d", q.Name, held, t.Resources[r], q.Limit[r])
			}
			if firm := q.AllocatedNonPreemptible[r]; t.QuotaCounts(r) && firm > q.Quota[r] {
				w.t.Errorf("NEVER: queue %s holds %d of %s for non-preemptible work, quota %d", q.Name, firm, t.Resources[r], q.Quota[r])
			}
		}
	}
	type card struct{ node, gpu string }
	load := map[card]int64{}
	for _, p := range w.pods {
		if p.State == model.Bound || p.State == model.Releasing {
			live, _ := w.c.Pod(p.UID)
			for _, h := range live.Held {
				load[card{p.Node, h.GPU}] += h.Milli
			}
		}
	}
	for c, milli := range load {
		if milli > 1000 {
			w.t.Errorf("NEVER: GPU %s of %s is used by %d thousandths: %s", c.gpu, c.node, milli, w.on(c.node))
		}
	}
}

// on words what a node's pods are, for messages.
func (w *world) on(node string) string {
	var out []string
	for _, uid := range slices.Sorted(maps.Keys(w.pods)) {
		if p := w.pods[uid]; p.Node == node {
			live, _ := w.c.Pod(uid)
			out = append(out, fmt.Sprintf("%s (state %d, holds %v)", uid, p.State, live.Held))
		}
	}
	return strings.Join(out, "; ")
}

var _ tester = (*testing.T)(nil)
