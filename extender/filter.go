// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/kube"
)

// filterResult has the form of extenderv1.ExtenderFilterResult, with nodes sent
// back as the text in which they came.
type filterResult struct {
	Nodes                      *rawNodeList `json:",omitempty"`
	NodeNames                  *[]string    `json:",omitempty"`
	FailedNodes                extenderv1.FailedNodesMap
	FailedAndUnresolvableNodes extenderv1.FailedNodesMap
	Error                      string
}

type rawNodeList struct {
	Items []jsontext.Value `json:"items"`
}

func (s *Server) filter(w http.ResponseWriter, r *http.Request) {
	args, err := decodeNodeArgs(r.Body)
	if err != nil {
		s.reject(w, err)
		return
	}
	s.answer(w, s.filterNodes(r.Context(), args))
}

// lookup finds a pod in the ledger. kube-scheduler's watch may be a moment ahead
// of ours, and a pod that is refused for that would stand back for a second, so
// a pod that is our business is waited for.
func (s *Server) lookup(ctx context.Context, p podRef) (view kube.PodView, known bool) {
	for limit := time.Now().Add(s.options.CacheWait); ; {
		view, known = s.ledger.Lookup(p.UID)
		if known || !s.concerns(p) || time.Now().After(limit) || ctx.Err() != nil {
			return view, known
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (s *Server) filterNodes(ctx context.Context, args nodeArgs) filterResult {
	view, known := s.lookup(ctx, args.Pod)
	switch {
	case known && !view.Interested, !known && !s.concerns(args.Pod):
		return keep(args, args.Names, nil)
	case !known:
		result := keep(args, nil, nil)
		result.Error = fmt.Sprintf("pod %s (UID %s) has not reached the extender's cache yet; try again", args.Pod, args.Pod.UID)
		return result
	}
	ok, failed := s.ledger.Feasible(args.Pod.UID, args.Names)
	return keep(args, ok, failed)
}

// concerns says whether a pod that the ledger does not know yet would be the
// extender's business.
func (s *Server) concerns(p podRef) bool {
	if s.options.QueueLabel != "" && p.Labels[s.options.QueueLabel] != "" {
		return true
	}
	for resource := range p.Resources {
		if s.reserve[resource] {
			return true
		}
	}
	return false
}

// keep builds the answer in the form of the question.
//
// Nodes that no eviction of kube-scheduler's own choice could help go into the
// map that saves its dry runs: the plan chooses victims.
func keep(args nodeArgs, ok []string, failed map[string]explain.Reason) filterResult {
	result := filterResult{FailedNodes: extenderv1.FailedNodesMap{}, FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{}}
	for node, reason := range failed {
		if reason.Code == explain.WaitingForVictims || reason.Code == kube.NodeUnknown {
			result.FailedNodes[node] = reason.Message
		} else {
			result.FailedAndUnresolvableNodes[node] = reason.Message
		}
	}
	if args.Objects == nil {
		names := append(make([]string, 0, len(ok)), ok...)
		result.NodeNames = &names
		return result
	}
	result.Nodes = &rawNodeList{Items: make([]jsontext.Value, 0, len(ok))}
	for _, name := range ok {
		result.Nodes.Items = append(result.Nodes.Items, args.Objects[name])
	}
	return result
}

func (s *Server) prioritize(w http.ResponseWriter, r *http.Request) {
	args, err := decodeNodeArgs(r.Body)
	if err != nil {
		s.reject(w, err)
		return
	}
	s.answer(w, s.scores(args))
}

// scores gives the planned node the highest score and all others the lowest:
// where there is a plan, nothing else may outweigh it.
func (s *Server) scores(args nodeArgs) extenderv1.HostPriorityList {
	view, _ := s.ledger.Lookup(args.Pod.UID)
	scores := make(extenderv1.HostPriorityList, 0, len(args.Names))
	for _, name := range args.Names {
		score := extenderv1.MinExtenderPriority
		if name == view.PlannedNode && name != "" {
			score = extenderv1.MaxExtenderPriority
		}
		scores = append(scores, extenderv1.HostPriority{Host: name, Score: score})
	}
	return scores
}

func (s *Server) preempt(w http.ResponseWriter, r *http.Request) {
	args, err := decodePreemptArgs(r.Body)
	if err != nil {
		s.reject(w, err)
		return
	}
	s.answer(w, s.victims(args))
}

// victims answers with the plan's choice if kube-scheduler offers its node,
// else with nothing: the queue controller evicts what kube-scheduler cannot.
// Pods that are not the extender's business keep what the dry run found.
func (s *Server) victims(args preemptArgs) extenderv1.ExtenderPreemptionResult {
	result := extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{}}
	view, known := s.ledger.Lookup(args.Pod.UID)
	if known && !view.Interested || !known && !s.concerns(args.Pod) {
		for node, c := range args.Nodes {
			if len(c.Victims) > 0 {
				result.NodeNameToMetaVictims[node] = metaVictims(c.Victims, c.PDBViolations)
			}
		}
		return result
	}
	node, victims := s.ledger.VictimsFor(args.Pod.UID)
	if c, offered := args.Nodes[node]; offered && node != "" && len(victims) > 0 {
		result.NodeNameToMetaVictims[node] = metaVictims(victims, c.PDBViolations)
	}
	return result
}

func metaVictims(uids []string, pdbViolations int64) *extenderv1.MetaVictims {
	v := &extenderv1.MetaVictims{Pods: make([]*extenderv1.MetaPod, 0, len(uids)), NumPDBViolations: pdbViolations}
	for _, uid := range uids {
		v.Pods = append(v.Pods, &extenderv1.MetaPod{UID: uid})
	}
	return v
}
