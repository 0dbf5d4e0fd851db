// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/cycle"
	"github.com/fairslice/fairslice/core/model"
)

// TestTranscripts runs the files of testdata: clusters, and word for word what
// is decided on them. `go test ./core/cycle -run Transcripts -rewrite` writes
// them anew, for review. The commands:
//
//	node NAME gpus=2 [label=(k=v,…)] [size=MiB] [down]
//	queue NAME [parent=] [quota=] [limit=] [weight=] [priority=] [runtime=s] [evictions=n] [delay=s]
//	topology NAME levels=(wide,narrow)
//	job NAME queue= [pods=1] [min=pods] [gpus=|milli=|mib=] [priority=] [firm]
//	    [bare] [on=(node,…)] [started=s] [spared=s] [required=] [preferred=] [group=(name:min,…)]
//	pod UID state=STATE [node=] [group=]
//	budget NAME allowed=1 pods=(…)
//	pace [cluster=] [queue=] [evicted=(queue:n,…)]: evictions a minute, and those of the last one
//	compact [obey]: plan moves for nobody in particular
//	cycle [obey]: decide; with obey, do what the plan says
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if strings.Contains(path, "rapid") {
			return
		}
		s := &transcript{world: newWorld(t)}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.t = t
			return s.command(d)
		})
	})
}

// transcript is a world that is told what to do.
type transcript struct {
	*world
	age     int64
	budgets []model.DisruptionBudget
}

func (s *transcript) command(d *datadriven.TestData) string {
	switch d.Cmd {
	case "node":
		return s.nodeCommand(d)
	case "queue":
		return s.queueCommand(d)
	case "topology":
		return failure(s.c.SetTopology(model.Topology{Name: first(d), Levels: list(d, "levels")}))
	case "job":
		return s.jobCommand(d)
	case "pod":
		return s.podCommand(d)
	case "budget":
		s.budgets = append(s.budgets, model.DisruptionBudget{Key: "ns/" + first(d), Allowed: number(d, "allowed", 0), Pods: list(d, "pods")})
		s.c.SetBudgets(s.budgets)
		return ""
	case "pace":
		s.paceCommand(d)
		return ""
	case "compact":
		return s.compact(d.HasArg("obey"))
	case "cycle":
		if d.HasArg("obey") {
			s.cycle()
		} else {
			s.plan = cycle.Decide(s.c)
			s.checkPlan()
		}
		return words(s.plan)
	}
	return "unknown command " + d.Cmd
}

func (s *transcript) nodeCommand(d *datadriven.TestData) string {
	n := model.Node{
		Name: first(d), Ready: !d.HasArg("down"), Labels: map[string]string{"node": first(d)},
		Allocatable: model.Quantities{"cpu": 64_000, "memory": 1 << 40, "pods": 110},
	}
	for _, kv := range list(d, "label") {
		k, v, _ := strings.Cut(kv, "=")
		n.Labels[k] = v
	}
	for i := range number(d, "gpus", 0) {
		n.GPUs = append(n.GPUs, model.GPU{ID: fmt.Sprint(i), Model: "A", MemoryMiB: int64(number(d, "size", 1000)), Healthy: true, Shareable: true})
	}
	return failure(s.c.SetNode(n))
}

func (s *transcript) queueCommand(d *datadriven.TestData) string {
	s.age++
	q := model.Queue{
		Name: first(d), Parent: text(d, "parent"), Priority: int32(number(d, "priority", 100)), CreatedAt: s.age,
		PreemptMinRuntime: -1, ReclaimMinRuntime: -1, Quota: model.Quantities{}, Limit: model.Quantities{},
		OverQuotaWeight: model.Quantities{"gpu": amount.Amount(number(d, "weight", 1))},
	}
	if d.HasArg("quota") {
		q.Quota["gpu"] = amount.Amount(1000 * number(d, "quota", 0))
	}
	if d.HasArg("limit") {
		q.Limit["gpu"] = amount.Amount(1000 * number(d, "limit", 0))
	}
	if d.HasArg("runtime") {
		q.ReclaimMinRuntime = int64(number(d, "runtime", 0)) * second
		q.PreemptMinRuntime = q.ReclaimMinRuntime
	}
	q.EvictionsPerMinute, q.PreemptionDelay = number(d, "evictions", 0), int64(number(d, "delay", 0))*second
	return failure(s.c.SetQueue(q))
}

func (s *transcript) jobCommand(d *datadriven.TestData) string {
	s.age++
	name, pods := first(d), number(d, "pods", 1)
	key := "ns/" + name
	spec := model.Workload{
		Key: key, Queue: text(d, "queue"), Priority: int32(number(d, "priority", 50)), Preemptible: !d.HasArg("firm"),
		MinMember: number(d, "min", pods), CreatedAt: s.age, StaleGrace: -1, Recreated: !d.HasArg("bare"), PendingSince: s.now,
		PreemptionDelay: int64(number(d, "delay", 0)) * second,
	}
	if d.HasArg("spared") {
		spec.SparedUntil = s.now + int64(number(d, "spared", 0))*second
	}
	if d.HasArg("started") {
		spec.StartedAt = s.now - int64(number(d, "started", 0))*second
	}
	if d.HasArg("required") || d.HasArg("preferred") {
		spec.Topology = &model.TopologyConstraint{Topology: "net", Required: text(d, "required"), Preferred: text(d, "preferred")}
	}
	var groups []string
	for _, g := range list(d, "group") {
		group, minimum, _ := strings.Cut(g, ":")
		n, _ := strconv.Atoi(minimum)
		spec.SubGroups = append(spec.SubGroups, model.SubGroup{Name: group, MinMember: n})
		groups = append(groups, group)
	}
	spec.MinSubGroup = number(d, "mingroups", 0)
	if err := s.c.SetWorkload(spec); err != nil {
		return err.Error()
	}
	s.jobs[key] = job{
		name: name, queue: spec.Queue, gpus: number(d, "gpus", 0), milli: int64(number(d, "milli", 0)),
		memMiB: amount.Amount(number(d, "mib", 0)), recreated: spec.Recreated,
	}
	on := list(d, "on")
	for i := range pods {
		j := s.jobs[key]
		if i < len(on) {
			j.node = on[i]
		}
		p := s.makePod(j)
		if len(groups) > 0 {
			s.change(p.UID, func(p *model.Pod) { p.SubGroup = groups[i*len(groups)/pods] })
		}
	}
	return ""
}

// paceCommand says how many evictions a minute are allowed and have been done.
func (s *transcript) paceCommand(d *datadriven.TestData) {
	p := model.Pace{Cluster: number(d, "cluster", 0), Queue: number(d, "queue", 0), Evicted: map[string]int{}}
	for _, kv := range list(d, "evicted") {
		queue, n, _ := strings.Cut(kv, ":")
		p.Evicted[queue], _ = strconv.Atoi(n)
	}
	s.c.SetPace(p)
}

var states = map[string]model.PodState{
	"pending": model.Pending, "gated": model.Gated, "promised": model.Promised, "bound": model.Bound,
	"releasing": model.Releasing, "stuck": model.Stuck, "succeeded": model.Succeeded, "failed": model.Failed,
}

func (s *transcript) podCommand(d *datadriven.TestData) string {
	s.change(first(d), func(p *model.Pod) {
		p.State = states[text(d, "state")]
		if d.HasArg("node") {
			p.Node = text(d, "node")
		}
		if d.HasArg("group") {
			p.SubGroup = text(d, "group")
		}
	})
	return ""
}

// words writes a plan, one decision a line.
func words(p cycle.Plan) string {
	var b strings.Builder
	for _, x := range p.Withdrawn {
		fmt.Fprintf(&b, "withdraw %s\n", x)
	}
	for _, x := range p.Placements {
		verb := "place"
		if x.Kept {
			verb = "keep"
		}
		fmt.Fprintf(&b, "%s %s\n", verb, placed(x))
	}
	for _, x := range p.Evictions {
		fmt.Fprintf(&b, "evict %s by %s", x.Pod, x.Rule)
		if x.MoveTo != nil {
			fmt.Fprintf(&b, ", to %s", placed(*x.MoveTo))
		}
		fmt.Fprintf(&b, "\n  %s\n", x.Reason.Message)
	}
	for _, x := range p.Waits {
		fmt.Fprintf(&b, "wait %d. %s: %s\n  %s\n", x.Position, x.Workload, x.Reason.Code, x.Reason.Message)
	}
	if b.Len() == 0 {
		return "nothing to do\n"
	}
	return b.String()
}

func placed(x cycle.Placement) string {
	out := x.Pod + " on " + x.Node
	for _, g := range x.GPUs {
		out += fmt.Sprintf(" %s:%d/%d", g.GPU, g.Milli, g.MemoryMiB)
	}
	if len(x.Awaits) > 0 {
		out += " after " + strings.Join(x.Awaits, ", ")
	}
	return out
}

func first(d *datadriven.TestData) string { return d.CmdArgs[0].Key }

func list(d *datadriven.TestData, key string) []string {
	for _, a := range d.CmdArgs {
		if a.Key == key {
			return a.Vals
		}
	}
	return nil
}

func text(d *datadriven.TestData, key string) string {
	if v := list(d, key); len(v) > 0 {
		return v[0]
	}
	return ""
}

func number(d *datadriven.TestData, key string, missing int) int {
	v := text(d, key)
	if v == "" {
		return missing
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		panic(fmt.Sprintf("%s: %s=%q is no number", d.Pos, key, v))
	}
	return n
}

func failure(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}
