// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package queuecontroller

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/kube"
)

// start lets a pod onto its promised node: it names the node in the pod's
// status, then removes the gate. kube-scheduler then looks at that one node. Where
// the promise is gone and the gate is not, the node's name is taken back.
func (c *Controller) start(ctx context.Context, uid string) error {
	s, ok := c.ledger.StartOf(uid)
	if !ok {
		return nil
	}
	if s.Node == "" {
		patch := object{"metadata": object{"uid": uid}, "status": object{"nominatedNodeName": nil}}
		if err := patchPod(ctx, c.options.Client, s.Pod, patch, "status"); err != nil {
			return fmt.Errorf("take back that pod %s is nominated to node %s: %w", s.Pod, s.Nominated, err)
		}
		c.sent.note(uid, "", c.options.Clock())
		return nil
	}
	if s.Nominated != s.Node || s.Told {
		status := object{"nominatedNodeName": s.Node}
		if s.Told {
			status["conditions"] = []object{{
				"type": v1alpha1.PodConditionWaiting, "status": corev1.ConditionFalse,
				"reason": reasonPlaced, "message": "the pod has its place on node " + s.Node, "lastTransitionTime": metav1.NewTime(c.options.Clock()),
			}}
		}
		patch := object{"metadata": object{"uid": uid}, "status": status}
		if err := patchPod(ctx, c.options.Client, s.Pod, patch, "status"); err != nil {
			return fmt.Errorf("nominate node %s for pod %s: %w", s.Node, s.Pod, err)
		}
		c.metrics.nominations.Inc()
	}
	if !s.Gated {
		c.sent.note(uid, s.Node, c.options.Clock())
		return nil
	}
	// The promise may have gone while the node was named: once the pod shows the
	// node it is taken back, and a promise that was made since has its own start.
	if now, ok := c.ledger.StartOf(uid); !ok || now.Node != s.Node {
		return nil
	}
	gate := object{"$patch": "delete", "name": v1alpha1.GateQueue}
	patch := object{"metadata": object{"uid": uid}, "spec": object{"schedulingGates": []object{gate}}}
	if err := patchPod(ctx, c.options.Client, s.Pod, patch); err != nil {
		return fmt.Errorf("remove the gate of pod %s: %w", s.Pod, err)
	}
	c.sent.note(uid, s.Node, c.options.Clock())
	c.metrics.ungated.Inc()
	c.metrics.waited.WithLabelValues(s.Queue).Observe(c.options.Clock().Sub(time.Unix(0, s.CreatedAt)).Seconds())
	return nil
}

// echo is how long the watch may take to bring back what was written; until
// then it is not written again.
const echo = 2 * time.Second

// sentStarts remembers what was written a moment ago.
type sentStarts struct {
	mu    sync.Mutex
	byUID map[string]sentStart
}

type sentStart struct {
	node string
	at   time.Time
}

func (s *sentStarts) note(uid, node string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byUID == nil {
		s.byUID = map[string]sentStart{}
	}
	s.byUID[uid] = sentStart{node, now}
}

// fresh returns the starts that were not written a moment ago.
func (s *sentStarts) fresh(starts []kube.Start, now time.Time) []kube.Start {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.byUID, func(_ string, sent sentStart) bool { return now.Sub(sent.at) > echo })
	return slices.DeleteFunc(slices.Clone(starts), func(start kube.Start) bool {
		sent, known := s.byUID[start.Pod.UID]
		return known && sent.node == start.Node
	})
}

// reasonPlaced is the reason of PodConditionWaiting once it is false.
const reasonPlaced = "Placed"

// object is a JSON object.
type object map[string]any

// patchPod patches a pod by strategic merge, or does nothing if it is gone. The UID in the patch
// makes the API server refuse it for another pod of that name; that is a
// conflict, and the try that follows finds the pod gone from the ledger.
func patchPod(ctx context.Context, client kubernetes.Interface, pod kube.PodRef, patch object, sub ...string) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{FieldManager: fieldManager}, sub...)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

const fieldManager = "fairslice-controlplane"
