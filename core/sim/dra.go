// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"maps"
	"slices"
	"strings"

	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/core/scenario"
)

// maxReserved is how many pods the Kubernetes API lets share one claim.
const maxReserved = 256

// claims applies a scenario's DRA section: a claim on GPUs becomes a request
// for whole GPUs of a node that offers them through resource slices. Of pods
// that share a claim the first holds its GPUs, and the others follow it to its
// node.
type claims struct {
	byName map[string]*scenario.DRAClaim
	// holder is the pod that carries each claim; users counts pods by claim.
	holder map[string]string
	users  map[string]int
}

func newClaims(s *scenario.Scenario) *claims {
	c := &claims{map[string]*scenario.DRAClaim{}, map[string]string{}, map[string]int{}}
	if s.DRA == nil {
		return c
	}
	for i := range s.DRA.Claims {
		c.byName[s.DRA.Claims[i].Name] = &s.DRA.Claims[i]
	}
	for i := range s.Workloads {
		for j := range s.Workloads[i].Pods {
			p := &s.Workloads[i].Pods[j]
			for _, name := range claimNames(p) {
				c.users[name]++
				if claim := c.byName[name]; c.holder[name] == "" || claim != nil && slices.Index(claim.ReservedFor, p.Name) == 0 {
					c.holder[name] = p.Name
				}
			}
		}
	}
	return c
}

func claimNames(p *scenario.Pod) []string {
	out := slices.Clone(p.ResourceClaims)
	for _, template := range sortedKeys(p.ResourceClaimTemplates) {
		out = append(out, p.ResourceClaimTemplates[template])
	}
	return out
}

func claimLabel(name string) string { return "fairslice.io/simulated-claim-" + name }

// apply adds a pod's claims to its converted form.
func (c *claims) apply(w *scenario.Workload, p *scenario.Pod, out *model.Pod) {
	names := claimNames(p)
	if len(names) == 0 {
		if len(out.Claims) > 0 {
			out.NodeTerms = restrict(out.NodeTerms, model.Requirement{Key: draLabel, Op: model.OpDoesNotExist})
		}
		return
	}
	for _, name := range names {
		claim := c.byName[name]
		if claim == nil {
			claim = unlisted(name, requestOf(w, p), len(names))
		}
		if claim == nil || c.refused(claim, w) {
			out.NodeTerms = [][]model.Requirement{{}}
			return
		}
		if !strings.Contains(claim.DeviceClass, "gpu") {
			continue
		}
		out.NodeTerms = restrict(out.NodeTerms, model.Requirement{Key: draLabel, Op: model.OpExists})
		if c.holder[name] != p.Name {
			out.Affinities = append(out.Affinities, model.PodAffinity{
				MatchLabels: map[string]string{claimLabel(name): "true"}, TopologyKey: nodeNameLabel,
			})
			continue
		}
		if out.Labels = cloneLabels(out.Labels); c.users[name] > 1 {
			out.Labels[claimLabel(name)] = "true"
		}
		out.Claims = append(out.Claims, model.GPUClaim{Name: name, Kind: model.WholeGPU, Count: max(claim.Count, 1)})
	}
}

// unlisted claims are made from a template for the pod alone: the request says
// how many GPUs they are for.
func unlisted(name string, r *scenario.Request, claims int) *scenario.DRAClaim {
	if r.DRAGPUs == 0 || claims > 1 {
		return nil
	}
	return &scenario.DRAClaim{Name: name, DeviceClass: "gpu", Count: r.DRAGPUs}
}

// refused claims are shared ones of another queue, and those that have no
// holder's place left.
func (c *claims) refused(claim *scenario.DRAClaim, w *scenario.Workload) bool {
	gpu := strings.Contains(claim.DeviceClass, "gpu")
	return gpu && claim.Queue != "" && claim.Queue != w.Queue || claim.ReservedForOthers+c.users[claim.Name] > maxReserved
}

// nodeNameLabel is put on every node of a scenario with claims.
const nodeNameLabel = "fairslice.io/simulated-node-name"

func cloneLabels(labels map[string]string) map[string]string {
	out := make(map[string]string, len(labels)+1)
	maps.Copy(out, labels)
	return out
}

// restrict adds a requirement to every alternative.
func restrict(terms [][]model.Requirement, r model.Requirement) [][]model.Requirement {
	if len(terms) == 0 {
		return [][]model.Requirement{{r}}
	}
	out := make([][]model.Requirement, len(terms))
	for i, term := range terms {
		out[i] = term
		if len(term) > 0 {
			out[i] = append(slices.Clone(term), r)
		}
	}
	return out
}
