// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/fairslice/fairslice/core/model"
)

// Dump is the whole ledger as data, for people and for programs that compare
// it with the API server and the kubelets. Lists are sorted.
type Dump struct {
	Ready  bool       `json:"ready"`
	Cycles uint64     `json:"cycles"`
	Nodes  []DumpNode `json:"nodes"`
	Pods   []DumpPod  `json:"pods"`
}

// DumpNode is a node with its GPUs.
type DumpNode struct {
	Name string    `json:"name"`
	GPUs []DumpGPU `json:"gpus"`
}

// DumpGPU is a GPU with the sums of what is held or promised of it.
type DumpGPU struct {
	ID        string `json:"id"`
	Model     string `json:"model,omitempty"`
	Healthy   bool   `json:"healthy"`
	Milli     int64  `json:"milli"`
	MemoryMiB int64  `json:"memoryMiB"`
	OfMiB     int64  `json:"ofMiB"`
	// Pods that hold or are promised a part, as namespace/name.
	Pods []string `json:"pods,omitempty"`
}

// DumpPod is one entry.
type DumpPod struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       string    `json:"uid"`
	Queue     string    `json:"queue,omitempty"`
	Workload  string    `json:"workload,omitempty"`
	State     string    `json:"state"`
	Leaving   bool      `json:"leaving,omitempty"`
	Gated     bool      `json:"gated,omitempty"`
	Node      string    `json:"node,omitempty"`
	GPUs      []DumpUse `json:"gpus,omitempty"`
	Awaits    []string  `json:"awaits,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	Message   string    `json:"message,omitempty"`
	Position  int       `json:"position,omitempty"`
}

// DumpUse is what a pod holds of one GPU.
type DumpUse struct {
	Claim     string `json:"claim"`
	GPU       string `json:"gpu"`
	Milli     int64  `json:"milli"`
	MemoryMiB int64  `json:"memoryMiB"`
}

// Dump returns the ledger as it is now.
func (l *Ledger) Dump() Dump {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := Dump{Ready: len(l.unsynced) == 0, Cycles: l.cycles, Nodes: []DumpNode{}, Pods: []DumpPod{}}
	uses := map[string]map[string]*DumpGPU{}
	for name, f := range l.nodes {
		uses[name] = map[string]*DumpGPU{}
		for _, g := range f.node.GPUs {
			uses[name][g.ID] = &DumpGPU{ID: g.ID, Model: g.Model, Healthy: g.Healthy, OfMiB: g.MemoryMiB}
		}
	}
	for _, e := range l.pods {
		p := l.dumpPod(e)
		d.Pods = append(d.Pods, p)
		for _, u := range p.GPUs {
			if g := uses[p.Node][u.GPU]; g != nil {
				g.Milli += u.Milli
				g.MemoryMiB += u.MemoryMiB
				if name := p.Namespace + "/" + p.Name; !slices.Contains(g.Pods, name) {
					g.Pods = append(g.Pods, name)
				}
			}
		}
	}
	for name, gpus := range uses {
		n := DumpNode{Name: name, GPUs: []DumpGPU{}}
		for _, g := range gpus {
			slices.Sort(g.Pods)
			n.GPUs = append(n.GPUs, *g)
		}
		slices.SortFunc(n.GPUs, func(a, b DumpGPU) int { return strings.Compare(a.ID, b.ID) })
		d.Nodes = append(d.Nodes, n)
	}
	slices.SortFunc(d.Nodes, func(a, b DumpNode) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(d.Pods, func(a, b DumpPod) int {
		return strings.Compare(a.Namespace+"/"+a.Name+"/"+a.UID, b.Namespace+"/"+b.Name+"/"+b.UID)
	})
	return d
}

func (l *Ledger) dumpPod(e *entry) DumpPod {
	v := l.view(e)
	p := DumpPod{
		Namespace: v.Namespace, Name: v.Name, UID: v.UID, Queue: v.Queue,
		State: e.state.String(), Leaving: v.Leaving, Gated: e.facts.gated, Node: e.node,
		Awaits: slices.Clone(e.awaits), Position: e.position,
	}
	if e.workload != nil {
		p.Workload = v.Workload
	}
	if v.Reason != nil {
		p.Reason, p.Message = string(v.Reason.Code), v.Reason.Message
	}
	var held []model.HeldGPU
	if e.state == statePromised || e.holds() {
		held = l.heldIn(e)
	}
	p.GPUs = uses(held)
	return p
}

func uses(held []model.HeldGPU) (out []DumpUse) {
	for _, h := range held {
		out = append(out, DumpUse{h.Claim, h.GPU, h.Milli, h.MemoryMiB})
	}
	return out
}

// DumpHandler serves the dump as JSON.
func (l *Ledger) DumpHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		out := json.NewEncoder(w)
		out.SetIndent("", "  ")
		if err := out.Encode(l.Dump()); err != nil {
			l.log.Warn("the ledger dump was not delivered", "err", err)
		}
	})
}
