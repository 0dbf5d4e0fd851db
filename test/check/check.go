// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/kube"
)

// Accounts are the three accounts at one moment.
type Accounts struct {
	Pods   []corev1.Pod
	Nodes  []corev1.Node
	Ledger kube.Dump
	// Kubelets has what each kubelet handed out, by node; nodes without an
	// entry have no kubelet.
	Kubelets map[string][]Devices
}

// Devices is what a kubelet gave a container of one resource.
type Devices struct {
	Namespace, Pod, Container string
	Resource                  string
	IDs                       []string
}

// share is a part of a GPU.
type share struct{ milli, mib int64 }

// gpuKey names a GPU of a node.
type gpuKey struct{ node, uuid string }

func (k gpuKey) String() string { return k.node + "/" + k.uuid }

// Compare returns every difference, sorted; none means that the accounts agree.
// It is meant for a cluster at rest: what is in flight differs for a moment.
func Compare(a Accounts) []string {
	c := comparison{Accounts: a, sizes: map[gpuKey]int64{}, counted: map[gpuKey]bool{}, uuidOf: map[gpuKey]string{}}
	c.readNodes()
	byPod := c.assignments()
	c.withinCards(byPod)
	c.withLedger(byPod)
	c.withKubelets(byPod)
	sort.Strings(c.found)
	return c.found
}

type comparison struct {
	Accounts
	sizes map[gpuKey]int64
	// counted are MIG instances of profiles, which the ledger counts by request.
	counted map[gpuKey]bool
	// uuidOf maps a device ID's GPU part to the UUID.
	uuidOf map[gpuKey]string
	found  []string
}

func (c *comparison) report(format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf(format, args...))
}

func (c *comparison) readNodes() {
	for _, n := range c.Nodes {
		text, published := n.Annotations[v1alpha1.AnnotationGPUs]
		if !published {
			continue
		}
		inventory, err := v1alpha1.DecodeInventory(text)
		if err != nil {
			c.report("node %s: %v", n.Name, err)
			continue
		}
		for _, g := range inventory.GPUs {
			c.sizes[gpuKey{n.Name, g.UUID}] = g.MemoryMiB
			c.uuidOf[gpuKey{n.Name, g.ID}] = g.UUID
			c.counted[gpuKey{n.Name, g.UUID}] = g.MIG != "" && !slices.Contains(g.Resources, v1alpha1.ResourceWholeGPU)
		}
	}
}

// assignments decodes those of the pods that hold a node, by UID.
func (c *comparison) assignments() map[string]v1alpha1.Assignment {
	byPod := map[string]v1alpha1.Assignment{}
	for _, p := range c.Pods {
		text, has := p.Annotations[v1alpha1.AnnotationGPUAssignment]
		if p.Spec.NodeName == "" && has {
			c.report("pod %s/%s has an assignment and no node", p.Namespace, p.Name)
		}
		if !has || !alive(p) {
			continue
		}
		a, err := v1alpha1.DecodeAssignment(text)
		switch {
		case err != nil:
			c.report("pod %s/%s: %v", p.Namespace, p.Name, err)
		case a.Node != p.Spec.NodeName || a.PodUID != string(p.UID):
			c.report("pod %s/%s (UID %s) on %s has the assignment of UID %s on %s", p.Namespace, p.Name, p.UID, p.Spec.NodeName, a.PodUID, a.Node)
		default:
			byPod[string(p.UID)] = a
		}
	}
	return byPod
}

func alive(p corev1.Pod) bool {
	return p.Spec.NodeName != "" && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}

func shares(a v1alpha1.Assignment) map[gpuKey]share {
	sum := map[gpuKey]share{}
	for _, c := range a.Containers {
		for _, g := range c.GPUs {
			k := gpuKey{a.Node, g.UUID}
			sum[k] = share{sum[k].milli + g.MilliGPU, sum[k].mib + g.MemoryMiB}
		}
	}
	return sum
}

// withinCards checks that no card carries more than it has.
func (c *comparison) withinCards(byPod map[string]v1alpha1.Assignment) {
	total := map[gpuKey]share{}
	for _, a := range byPod {
		for k, s := range shares(a) {
			total[k] = share{total[k].milli + s.milli, total[k].mib + s.mib}
		}
	}
	for k, s := range total {
		size, known := c.sizes[k]
		if known && (s.milli > 1000 || s.mib > size) {
			c.report("GPU %s is booked twice: assignments hold %d/1000 and %d of %d MiB", k, s.milli, s.mib, size)
		}
	}
}

// withLedger checks that the ledger has exactly the pods of the API server,
// each where it is and with what it holds.
func (c *comparison) withLedger(byPod map[string]v1alpha1.Assignment) {
	pods := map[string]corev1.Pod{}
	for _, p := range c.Pods {
		pods[string(p.UID)] = p
	}
	entries := map[string]kube.DumpPod{}
	for _, e := range c.Ledger.Pods {
		entries[e.UID] = e
		p, exists := pods[e.UID]
		switch {
		case !exists:
			c.report("the ledger keeps pod %s/%s (UID %s, %s), which does not exist", e.Namespace, e.Name, e.UID, e.State)
		case e.State == "bound" && e.Node != p.Spec.NodeName:
			c.report("the ledger has pod %s/%s on %q, the API server on %q", e.Namespace, e.Name, e.Node, p.Spec.NodeName)
		case e.State == "assumed":
			c.report("the ledger has pod %s/%s still assumed on %s", e.Namespace, e.Name, e.Node)
		}
	}
	for uid, a := range byPod {
		p, e := pods[uid], entries[uid]
		if e.UID == "" {
			c.report("the ledger has lost pod %s/%s, which holds GPUs on %s", p.Namespace, p.Name, a.Node)
			continue
		}
		want, got := shares(a), map[gpuKey]share{}
		for _, u := range e.GPUs {
			k := gpuKey{e.Node, u.GPU}
			got[k] = share{got[k].milli + u.Milli, got[k].mib + u.MemoryMiB}
		}
		for k, s := range want {
			if k.uuid != "" && !c.counted[k] && got[k] != s {
				c.report("pod %s/%s holds %d/1000 and %d MiB of GPU %s, the ledger says %d/1000 and %d MiB", p.Namespace, p.Name, s.milli, s.mib, k, got[k].milli, got[k].mib)
			}
		}
	}
	for _, n := range c.Ledger.Nodes {
		for _, g := range n.GPUs {
			if g.Milli > 1000 || g.OfMiB > 0 && g.MemoryMiB > g.OfMiB {
				c.report("GPU %s/%s is booked twice in the ledger: %d/1000 and %d of %d MiB by %s", n.Name, g.ID, g.Milli, g.MemoryMiB, g.OfMiB, strings.Join(g.Pods, ", "))
			}
		}
	}
}

// withKubelets checks that each container holds the devices that its pod's
// assignment names, and that no device was given twice.
func (c *comparison) withKubelets(byPod map[string]v1alpha1.Assignment) {
	uids := map[string]string{}
	for _, p := range c.Pods {
		if alive(p) {
			uids[p.Namespace+"/"+p.Name] = string(p.UID)
		}
	}
	for node, given := range c.Kubelets {
		holders := map[string]string{}
		for _, d := range given {
			who := fmt.Sprintf("%s/%s container %s", d.Namespace, d.Pod, d.Container)
			units := map[string]int64{}
			for _, id := range d.IDs {
				device := d.Resource + " " + id
				if other, taken := holders[device]; taken {
					c.report("kubelet of %s gave device %s to %s and to %s", node, device, other, who)
				}
				holders[device] = who
				gpu, _, _ := strings.Cut(id, "-")
				units[c.uuidOf[gpuKey{node, gpu}]]++
			}
			c.sameDevices(node, who, d, units, byPod[uids[d.Namespace+"/"+d.Pod]])
		}
	}
}

func (c *comparison) sameDevices(node, who string, d Devices, units map[string]int64, a v1alpha1.Assignment) {
	for _, ca := range a.Containers {
		if ca.Name != d.Container || ca.Resource != d.Resource {
			continue
		}
		named := map[string]int64{}
		for _, g := range ca.GPUs {
			named[g.UUID] += g.Units
		}
		for uuid, n := range units {
			if named[uuid] != n {
				c.report("kubelet of %s gave %s %d units of %s on GPU %s, its annotation says %d", node, who, n, d.Resource, uuid, named[uuid])
			}
		}
		return
	}
	c.report("kubelet of %s gave %s %d units of %s, which its annotation does not name", node, who, len(d.IDs), d.Resource)
}
