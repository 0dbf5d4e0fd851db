// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package fit

import (
	"slices"
	"strconv"

	"github.com/fairslice/fairslice/core/model"
)

// Verdict is what a node's fixed properties say about a shape of pods.
type Verdict uint8

// Verdicts. All but Allowed refuse, whatever room there is.
const (
	unknown Verdict = iota
	Allowed
	NotReady
	Cordoned
	SelectorMismatch
	Tainted
	TooWeakIsolation
	Excluded
	MIGMismatch
)

// String words a refusal so that it can follow "2 nodes: ".
func (v Verdict) String() string {
	switch v {
	case Allowed:
		return "allowed"
	case NotReady:
		return "not ready"
	case Cordoned:
		return "cordoned"
	case SelectorMismatch:
		return "not matched by the node selector or affinity"
	case Tainted:
		return "tainted without a toleration"
	case TooWeakIsolation:
		return "isolation level too weak"
	case Excluded:
		return "refused by the scheduler or the kubelet (volumes, ports, NUMA or the like)"
	case MIGMismatch:
		return "MIG strategy does not serve this kind of request"
	}
	return "unknown"
}

// Static judges a node by what does not depend on its room. The answer is
// kept with the shape until the node changes.
func Static(c *model.Cluster, s *model.Shape, n *model.LiveNode) Verdict {
	if s.Layout != c.Layout() {
		size := len(c.NodeList())
		s.Verdict, s.Seen, s.Layout = make([]uint8, size), make([]uint32, size), c.Layout()
	}
	i := n.Index
	if i < 0 {
		return NotReady
	}
	if s.Verdict[i] != uint8(unknown) && s.Seen[i] == n.Static {
		return Verdict(s.Verdict[i])
	}
	v := judge(s, n.Spec)
	s.Verdict[i], s.Seen[i] = uint8(v), n.Static
	return v
}

func judge(s *model.Shape, n *model.Node) Verdict {
	switch {
	case !n.Ready:
		return NotReady
	case n.Unschedulable:
		return Cordoned
	case !matchesTerms(s.NodeTerms, n):
		return SelectorMismatch
	case !tolerated(s.Tolerations, n.Taints):
		return Tainted
	case n.Isolation < s.MinIsolation && (!s.MIG || len(s.Claims) > 0):
		// MIG instances have the strongest level, whatever holds the node's GPUs.
		return TooWeakIsolation
	case slices.Contains(s.Excluded, n.Name):
		return Excluded
	case n.MIGStrategy == "mixed" && len(s.Claims) > 0, n.MIGStrategy == "single" && s.MIG:
		return MIGMismatch
	}
	return Allowed
}

func matchesTerms(terms [][]model.Requirement, n *model.Node) bool {
	if len(terms) == 0 {
		return true
	}
	return slices.ContainsFunc(terms, func(term []model.Requirement) bool {
		for _, r := range term {
			if !holds(r, n) {
				return false
			}
		}
		return len(term) > 0
	})
}

func holds(r model.Requirement, n *model.Node) bool {
	value, ok := n.Labels[r.Key]
	if r.Key == model.FieldNodeName {
		value, ok = n.Name, true
	}
	switch r.Op {
	case model.OpIn:
		return ok && slices.Contains(r.Values, value)
	case model.OpNotIn:
		return !ok || !slices.Contains(r.Values, value)
	case model.OpExists:
		return ok
	case model.OpDoesNotExist:
		return !ok
	case model.OpGt, model.OpLt:
		if !ok || len(r.Values) != 1 {
			return false
		}
		have, err1 := strconv.ParseInt(value, 10, 64)
		want, err2 := strconv.ParseInt(r.Values[0], 10, 64)
		if err1 != nil || err2 != nil {
			return false
		}
		if r.Op == model.OpGt {
			return have > want
		}
		return have < want
	}
	return false
}

func tolerated(tolerations []model.Toleration, taints []model.Taint) bool {
	for _, t := range taints {
		if t.Effect != "NoSchedule" && t.Effect != "NoExecute" {
			continue
		}
		if !slices.ContainsFunc(tolerations, func(o model.Toleration) bool { return tolerates(o, t) }) {
			return false
		}
	}
	return true
}

func tolerates(o model.Toleration, t model.Taint) bool {
	if o.Effect != "" && o.Effect != t.Effect {
		return false
	}
	if o.Key == "" {
		return o.Exists
	}
	return o.Key == t.Key && (o.Exists || o.Value == t.Value)
}
