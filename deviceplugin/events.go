// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/fairslice/fairslice/deviceplugin/health"
	"github.com/fairslice/fairslice/deviceplugin/match"
)

// Reasons of events.
const (
	reasonUnhealthy = "GPUUnhealthy"
	reasonRecovered = "GPURecovered"

	reasonCordoned   = "GPUCordoned"
	reasonUncordoned = "GPUUncordoned"
	reasonBadCordon  = "InvalidGPUCordon"

	reasonMemoryExceeded = "GPUMemoryExceeded"
	reasonForeignMemory  = "ForeignGPUMemory"
	reasonVisibility     = "GPUVisibility"
	reasonMPSRestarted   = "MPSRestarted"
)

// startEvents returns a recorder and what ends it. Events are best effort and
// never hold anything up.
func startEvents(client kubernetes.Interface) (record.EventRecorder, func()) {
	b := record.NewBroadcaster()
	b.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	return b.NewRecorder(scheme(), corev1.EventSource{Component: "fairslice-device-plugin"}), b.Shutdown
}

func scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	_ = corev1.AddToScheme(s)
	return s
}

// nodeReference has the UID by which the kubelet's events go, too.
func (a *agent) nodeReference() *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Node", Name: a.o.NodeName, UID: types.UID(a.o.NodeName), APIVersion: "v1"}
}

func podReference(o match.Owner) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Pod", Namespace: o.Namespace, Name: o.Pod, UID: types.UID(o.PodUID), APIVersion: "v1"}
}

// tellHealth writes an event on the node, and one on each pod that holds a part of
// a GPU that failed.
func (a *agent) tellHealth(uuid string, state health.State, why string) {
	if state == health.Probation {
		return
	}
	node := a.nodeReference()
	if state == health.Healthy {
		a.events.Event(node, corev1.EventTypeNormal, reasonRecovered, fmt.Sprintf("GPU %s takes containers again", uuid))
		return
	}
	a.events.Event(node, corev1.EventTypeWarning, reasonUnhealthy, fmt.Sprintf("GPU %s takes no new containers: %s", uuid, why))
	told := map[string]bool{}
	for _, h := range a.book.Allocations() {
		for _, s := range h.Shares {
			if s.GPU.UUID != uuid || h.Owner.Pod == "" || told[h.Owner.PodUID] {
				continue
			}
			told[h.Owner.PodUID] = true
			a.events.Event(podReference(h.Owner), corev1.EventTypeWarning, reasonUnhealthy, fmt.Sprintf("GPU %s of container %s on node %s is unhealthy: %s", uuid, h.Owner.Container, a.o.NodeName, why))
		}
	}
}

// tellLostMPS writes an event on each pod whose MPS daemon was started again: its
// processes have failed, and nothing but a new start of the container helps.
func (a *agent) tellLostMPS(uuid string) {
	told := map[string]bool{}
	for _, h := range a.book.Allocations() {
		for _, s := range h.Shares {
			if s.GPU.UUID != uuid || h.Owner.Pod == "" || told[h.Owner.PodUID] {
				continue
			}
			told[h.Owner.PodUID] = true
			a.events.Event(podReference(h.Owner), corev1.EventTypeWarning, reasonMPSRestarted,
				fmt.Sprintf("the MPS daemon of GPU %s no longer answered and was started again: processes of container %s that use the GPU have failed", uuid, h.Owner.Container))
		}
	}
}
