// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairslice/fairslice/core/explain"
)

// Delays after a kubelet turned a pod away. They are long: each attempt costs a
// pod, and a Job has only so many.
const (
	turnedAwayBase = 5 * time.Minute
	turnedAwayMax  = time.Hour
)

// turnedAway is a node whose kubelet refused to admit a pod that was bound to
// it, for reasons that the API does not show, such as GPUs on two halves of the
// machine. The pod has failed; it is the next one of the same owner that must
// not go there.
type turnedAway struct {
	until   int64 // nanoseconds
	delay   time.Duration
	times   int
	message string
	// back is true once the pods of the line know that the time is over.
	back bool
}

// kubeletRefusal is what the kubelet said when it refused to admit the pod, ""
// if it did not.
func kubeletRefusal(s *corev1.PodStatus) string {
	if s.Phase != corev1.PodFailed {
		return ""
	}
	switch s.Reason {
	case "UnexpectedAdmissionError", "TopologyAffinityError", "SMTAlignmentError":
	default:
		if !strings.HasPrefix(s.Reason, "OutOf") {
			return ""
		}
	}
	return strings.TrimSpace(s.Reason + ": " + s.Message)
}

// line is what the pod and those that stand in for it have in common, "" if
// nobody makes another one.
func (e *entry) line() string {
	switch {
	case e.facts.owner != "":
		return e.facts.owner
	case e.workload != nil && e.workload.isGroup:
		return e.workload.key
	}
	return ""
}

// turnAway remembers that the kubelet refused the pod.
func (l *Ledger) turnAway(e *entry) {
	line, node := e.line(), e.facts.node
	if e.facts.turnedAway == "" || e.workload == nil || line == "" || node == "" {
		return
	}
	nodes := l.turned[line]
	if nodes == nil {
		nodes = map[string]turnedAway{}
		l.turned[line] = nodes
	}
	t := nodes[node]
	t.delay = backoff(turnedAwayBase, turnedAwayMax, t.times)
	t.until = l.now() + int64(t.delay)
	t.times++
	t.message, t.back = e.facts.turnedAway, false
	nodes[node] = t
	l.log.Info("the kubelet refused a pod", "pod", e.facts.ref.String(), "node", node, "refusal", t.message)
	l.refeedLine(line)
}

// refeedLine tells the cluster where the waiting pods of a line may not go.
func (l *Ledger) refeedLine(line string) {
	for _, s := range []state{stateWaiting, statePromised} {
		for _, e := range byUID(l.index.states[s]) {
			if e.line() == line {
				l.refeed(e)
			}
		}
	}
}

// excludedNodes are those that kube-scheduler or a kubelet refused.
func (l *Ledger) excludedNodes(e *entry) []string {
	var out []string
	for node, x := range e.excluded {
		if !x.over {
			out = append(out, node)
		}
	}
	if len(l.turned) > 0 {
		now := l.now()
		for node, t := range l.turned[e.line()] {
			if t.until > now {
				out = append(out, node)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// letBack ends refusals whose time is over, and forgets those that have not been
// repeated for long.
func (l *Ledger) letBack(now int64) {
	for line, nodes := range l.turned {
		ended := false
		for node, t := range nodes {
			switch {
			case t.until > now:
			case now >= t.until+int64(turnedAwayMax):
				delete(nodes, node)
				ended = ended || !t.back
			case !t.back:
				t.back, ended = true, true
				nodes[node] = t
			}
		}
		if len(nodes) == 0 {
			delete(l.turned, line)
		}
		if ended {
			l.refeedLine(line)
		}
	}
}

// recall adds to a reason to wait what a kubelet said.
func (l *Ledger) recall(e *entry, r *explain.Reason) {
	if len(l.turned) == 0 {
		return
	}
	nodes := l.turned[e.line()]
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		if t := nodes[node]; t.until > l.now() {
			l.wake(t.until)
			r.Message += fmt.Sprintf("; the kubelet of node %s refused a pod of this workload (%s), which keeps others off it for %s",
				node, t.message, t.delay)
			return
		}
	}
}
