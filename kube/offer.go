// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/core/explain"
)

// offer counts units of the resources that are served from GPUs, in the order
// of Config.servedResources: what the kubelet of a node offers, or what a pod
// asks for.
//
// The ledger keeps the exact account per GPU. The kubelet offers each resource
// by itself and takes seconds to notice that a pod which ended has made room for
// another resource; a pod that is bound before is refused by the kubelet for
// ever. So a promise is used only once the kubelet's own arithmetic, which is
// kube-scheduler's too, has room for it.
type offer [3]int64

func (c *Config) servedResources() [3]string {
	return [3]string{c.GPUResource, v1alpha1.ResourceGPUSlice, v1alpha1.ResourceGPUMemory}
}

func (c *Config) offerOf(list corev1.ResourceList) (o offer) {
	for i, name := range c.servedResources() {
		o[i] = list.Name(corev1.ResourceName(name), resource.DecimalSI).Value()
	}
	return o
}

// account adds what an entry asks for to its node, or takes it away.
func (l *Ledger) account(e *entry, sign int64) {
	asks := e.facts.asks
	if e.state != stateAssumed && e.state != stateBound || asks == (offer{}) {
		return
	}
	sum := l.asked[e.node]
	for i, n := range asks {
		sum[i] += sign * n
	}
	if sum == (offer{}) {
		delete(l.asked, e.node)
		return
	}
	l.asked[e.node] = sum
}

// notOffered says what the kubelet of the promised node does not offer yet, nil
// if it offers all.
func (l *Ledger) notOffered(e *entry) *explain.Reason {
	node, taken := l.nodes[e.node], l.asked[e.node]
	for i, n := range e.facts.asks {
		free := node.offered[i] - taken[i]
		if n == 0 || n <= free {
			continue
		}
		return &explain.Reason{
			Code: explain.WaitingForRelease, Requested: n, LargestFree: max(free, 0),
			Message: fmt.Sprintf("pod %s is promised node %s, whose kubelet offers %d of the %d %s that it needs so far",
				e.facts.ref, e.node, max(free, 0), n, l.config.servedResources()[i]),
		}
	}
	return nil
}
