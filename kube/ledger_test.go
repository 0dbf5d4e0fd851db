// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/core/cycle"
	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/core/model"
)

// TestLedger plays orders of events and prints what the ledger then holds.
//
//	node n1 gpus=2 mib=40960 [sharers=3] [plugin=no] [served=no] [healthy=1] [gone]
//	queue q [quota=4] [limit=4] [parent=p] [evictions=1] [delay=10s] [backoff=1m] [gone]
//	podgroup g [min=2] [queue=q] [delay=10s] [subs=(x,y) x=1 y=2] [gone]
//	namespace ns [queue=q]
//	budget b app=x allowed=0 [disrupted=(p1)]
//	pod p [uid=u] [ns=default] [queue=q] [group=g] [sub=x] [gpu=1|slice=25|mem=20] [count=2]
//	      [node=n1] [phase=Running] [gated] [othergate] [nominated=n1] [deleting]
//	      [refused="message"] [owner=o] [priority=0] [assigned=<GPU>] [app=x] [nogpu] [sidecar] [cpu=1]
//	      [kubelet=TopologyAffinityError]
//	gone uid=u          the watch tells that a pod is gone
//	decide [all]        a cycle
//	remember 1h         past usage counts, with that half-life; restarts the ledger
//	restrain [pace=2] [queuepace=1] [delay=30s] [backoff=1m]   restarts the ledger
//	next                when time alone may bring a decision
//	shares              what each queue used, in millionths, and is entitled to
//	save, restore       what the queues used, across a restart of the ledger
//	advance 10s
//	filter uid=u nodes=(n1,n2)
//	assume uid=u node=n1, confirm uid=u, forget uid=u, doubt uid=u
//	readback uid=u [missing] [node=n1]
//	victims uid=u, pardon uid=u [said=why], fails uid=u said=why
//	lookup uid=u, gang workload=default/g
//	adopt
//	pending queue=q     the waiting line
//	consolidate [dry]   moves for nobody in particular
//	troubles
func TestLedger(t *testing.T) {
	datadriven.Walk(t, "testdata/ledger", func(t *testing.T, path string) {
		p := newPlayer()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out, err := p.play(d)
			if err != nil {
				t.Fatalf("%s: %v", d.Pos, err)
			}
			return out
		})
	})
}

// player plays a transcript against one ledger.
type player struct {
	ledger *Ledger
	time   time.Time
	pods   map[string]*corev1.Pod // last seen, by UID
	saved  []byte                 // what the queues used
}

func newPlayer() *player {
	p := &player{time: time.Unix(1_800_000_000, 0), pods: map[string]*corev1.Pod{}}
	p.restart(func(*Config) {})
	return p
}

// restart begins with an empty ledger whose configuration was changed.
func (p *player) restart(change func(*Config)) {
	config := DefaultConfig()
	change(&config)
	p.ledger = NewLedger(config, func() time.Time { return p.time }, slog.New(slog.DiscardHandler))
}

// shares prints what each queue used, holds and is entitled to.
func (p *player) shares() string {
	var out strings.Builder
	for _, q := range p.ledger.Queues() {
		fmt.Fprintf(&out, "%s used %d of a million GPU, holds %d, fair share %d thousandths\n", q.Object.Name,
			q.Usage[model.ResourceGPU], q.Report.Allocated[model.ResourceGPU], q.Report.FairShare[model.ResourceGPU])
	}
	return out.String()
}

// args are the key=value arguments of a line.
type args map[string]string

func argsOf(d *datadriven.TestData) (name string, a args) {
	a = args{}
	for i, arg := range d.CmdArgs {
		if i == 0 && len(arg.Vals) == 0 {
			name = arg.Key
			continue
		}
		a[arg.Key] = strings.Join(arg.Vals, ",")
	}
	return name, a
}

func (a args) has(key string) bool { _, ok := a[key]; return ok }

func (a args) or(key, otherwise string) string {
	if v, ok := a[key]; ok {
		return v
	}
	return otherwise
}

func (a args) number(key string, otherwise int) int {
	n, err := strconv.Atoi(a.or(key, strconv.Itoa(otherwise)))
	if err != nil {
		panic(err)
	}
	return n
}

func (a args) duration(key string) time.Duration {
	d, err := time.ParseDuration(a.or(key, "0s"))
	if err != nil {
		panic(err)
	}
	return d
}

func (p *player) play(d *datadriven.TestData) (string, error) {
	name, a := argsOf(d)
	l := p.ledger
	switch d.Cmd {
	case "node":
		p.node(name, a)
	case "queue":
		p.queue(name, a)
	case "podgroup":
		p.podGroup(name, a)
	case "namespace":
		labels := map[string]string{}
		if a.has("queue") {
			labels[v1alpha1.LabelQueue] = a["queue"]
		}
		l.SetNamespace(name, labels)
	case "budget":
		l.SetBudget(&policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": a["app"]}}},
			Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: int32(a.number("allowed", 0)), DisruptedPods: disrupted(a)},
		})
	case "pod":
		pod := podOf(name, a, p.time)
		p.pods[string(pod.UID)] = pod
		l.SetPod(pod)
	case "gone":
		l.RemovePod(a["uid"])
	case "advance":
		step, err := time.ParseDuration(name)
		if err != nil {
			return "", err
		}
		p.time = p.time.Add(step)
		return "", nil
	case "adopt":
		l.Adopt()
	case "restrain":
		p.restart(func(c *Config) {
			c.EvictionsPerMinute, c.QueueEvictionsPerMinute = a.number("pace", 0), a.number("queuepace", 0)
			c.PreemptionDelay, c.EvictionBackoff = a.duration("delay"), a.duration("backoff")
		})
	case "remember":
		halfLife, err := time.ParseDuration(name)
		p.restart(func(c *Config) { c.UsageHalfLife = halfLife })
		return "", err
	default:
		return p.ask(d.Cmd, a)
	}
	return p.holdings(), nil
}

// ask plays the commands that answer.
func (p *player) ask(cmd string, a args) (string, error) {
	l := p.ledger
	uid := a["uid"]
	switch cmd {
	case "decide":
		if a.has("all") || len(a) == 0 {
			return p.round(l.Decide()), nil
		}
		return p.round(l.Decide(cycle.Allocate)), nil
	case "filter":
		ok, failed := l.Feasible(uid, strings.Split(a["nodes"], ","))
		return printFeasible(ok, failed), nil
	case "assume":
		assignment, err := l.Assume(uid, a["node"])
		if err != nil {
			first, _, _ := strings.Cut(err.Error(), ":")
			return "error: " + first, nil
		}
		return assignment + "\n" + p.holdings(), nil
	case "confirm":
		l.ConfirmBound(uid)
	case "forget":
		l.Forget(uid)
	case "doubt":
		l.Doubt(uid)
	case "readback":
		p.readBack(uid, a)
	case "fails":
		l.EvictionFails(uid, a["said"])
	case "pardon":
		l.Pardon(uid, a.or("said", "no"))
	case "victims":
		node, victims := l.VictimsFor(uid)
		return fmt.Sprintf("%q %v", node, victims), nil
	case "lookup":
		v, known := l.Lookup(uid)
		if !known {
			return "unknown", nil
		}
		return printView(v), nil
	case "gang":
		g := l.gang(l.workloads[a["workload"]])
		return fmt.Sprintf("ready=%v %d of %d", g.Ready(), g.Assumed+g.Bound+g.Succeeded, g.Minimum), nil
	case "unsettled":
		return fmt.Sprint(l.Unsettled(settleAge)), nil
	case "next":
		next := l.Decide().Next
		if next.IsZero() {
			return "never", nil
		}
		return "in " + next.Sub(p.time).String(), nil
	case "shares":
		return p.shares(), nil
	case "consolidate":
		return p.consolidate(a.has("dry")), nil
	case "pending":
		return p.pending(a["queue"]), nil
	case "save":
		p.saved, _ = l.SaveUsage(math.MaxInt)
		return "", nil
	case "restore":
		return "", l.RestoreUsage(p.saved)
	case "troubles":
		var out strings.Builder
		for _, t := range l.Troubles() {
			fmt.Fprintf(&out, "%s %s/%s: %s\n", t.Kind, t.Namespace, t.Name, t.Message)
		}
		return out.String(), nil
	default:
		return "", fmt.Errorf("unknown command %q", cmd)
	}
	return p.holdings(), nil
}

// readBack answers for a pod as the API server would.
func (p *player) readBack(uid string, a args) {
	seen := p.pods[uid]
	ref := PodRef{Namespace: seen.Namespace, Name: seen.Name, UID: uid}
	if a.has("missing") {
		p.ledger.ReadBack(ref, nil)
		return
	}
	pod := seen.DeepCopy()
	pod.Spec.NodeName = a["node"]
	p.ledger.ReadBack(ref, pod)
}

// holdings prints every pod that has or waits for a place, and every GPU that
// somebody holds.
func (p *player) holdings() string {
	var out strings.Builder
	d := p.ledger.Dump()
	for _, pod := range d.Pods {
		fmt.Fprintf(&out, "%s %s", pod.UID, pod.State)
		if pod.Node != "" {
			fmt.Fprintf(&out, " on %s", pod.Node)
		}
		if pod.Leaving {
			out.WriteString(" leaving")
		}
		for _, u := range pod.GPUs {
			fmt.Fprintf(&out, " %s:%d/%dMi", u.GPU, u.Milli, u.MemoryMiB)
		}
		if len(pod.Awaits) > 0 {
			fmt.Fprintf(&out, " awaits %v", pod.Awaits)
		}
		if pod.Message != "" {
			fmt.Fprintf(&out, " (%s)", said(explain.Code(pod.Reason), pod.Message))
		}
		out.WriteString("\n")
	}
	return out.String()
}

// said is a reason's code, and its sentence if it is worded in this package:
// core's own tests hold the others.
func said(code explain.Code, message string) string {
	switch code {
	case PodUnknown, NodeUnknown, NotPlannedYet, PlannedElsewhere, PodLeaving, PodGroupMissing, HeldByGate, BindingRefused,
		explain.InvalidRequest, explain.WaitingForVictims, explain.WaitingForRelease, explain.EvictionRefused, explain.BudgetForbids:
		return string(code) + ": " + message
	}
	if strings.Contains(message, v1alpha1.LabelQueue) || strings.Contains(message, "sharers") || strings.Contains(message, "kubelet of") || strings.Contains(message, "room is taken from others") {
		return string(code) + ": " + message
	}
	return string(code)
}

func (p *player) round(r Round) string {
	var out strings.Builder
	for _, s := range r.Starts {
		fmt.Fprintf(&out, "start %s on %s gated=%v nominated=%q\n", s.Pod, s.Node, s.Gated, s.Nominated)
	}
	for _, e := range r.Plan.Evictions {
		fmt.Fprintf(&out, "evict %s by %s for %s\n", e.Pod, e.Rule, e.For)
	}
	if len(r.Plan.Withdrawn) > 0 {
		fmt.Fprintf(&out, "withdrawn %v\n", r.Plan.Withdrawn)
	}
	return out.String() + p.holdings()
}

func printFeasible(ok []string, failed map[string]explain.Reason) string {
	var out strings.Builder
	fmt.Fprintf(&out, "ok %v\n", ok)
	var names []string
	for name := range failed {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&out, "%s: %s\n", name, said(failed[name].Code, failed[name].Message))
	}
	return out.String()
}

func printView(v PodView) string {
	return fmt.Sprintf("queue=%q interested=%v workload=%s planned=%q startable=%v assumed=%v bound=%v leaving=%v gang=%d/%d reason=%v",
		v.Queue, v.Interested, v.Workload, v.PlannedNode, v.Startable, v.Assumed, v.Bound, v.Leaving,
		v.Gang.Held(), v.Gang.Minimum, v.Reason != nil)
}
