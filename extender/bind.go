// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
)

// ErrPodGone says that no pod with the wanted UID exists any more.
var ErrPodGone = errors.New("pod does not exist any more")

// flights lets repeated calls for one pod and node share one bind: after a
// time-out kube-scheduler asks again while the first call is still at work.
type flights struct {
	mu   sync.Mutex
	byID map[PodKey]*flight
}

type flight struct {
	node string
	done chan struct{}
	err  error
}

func (s *Server) bind(w http.ResponseWriter, r *http.Request) {
	args, err := decodeBindArgs(r.Body)
	if err != nil {
		s.reject(w, err)
		return
	}
	err = s.bindOnce(r.Context(), PodKey{args.UID, args.Namespace, args.Name}, args.Node)
	s.metrics.binds.WithLabelValues(outcome(err)).Inc()
	s.answer(w, extenderv1.ExtenderBindingResult{Error: text(err)})
}

// bindOnce runs one bind for a pod at a time.
func (s *Server) bindOnce(ctx context.Context, pod PodKey, node string) error {
	s.flights.mu.Lock()
	if f, running := s.flights.byID[pod]; running {
		s.flights.mu.Unlock()
		if f.node != node {
			return fmt.Errorf("pod %s is being bound to node %s, not to %s", pod, f.node, node)
		}
		select {
		case <-f.done:
			return f.err
		case <-ctx.Done():
			return fmt.Errorf("pod %s: %w", pod, ctx.Err())
		}
	}
	f := &flight{node: node, done: make(chan struct{}), err: errPanicked}
	s.flights.byID[pod] = f
	s.flights.mu.Unlock()

	defer func() { // also after a panic, or nobody could bind the pod any more
		s.flights.mu.Lock()
		delete(s.flights.byID, pod)
		s.flights.mu.Unlock()
		close(f.done)
	}()
	f.err = s.bindPod(ctx, pod, node)
	return f.err
}

// errPanicked is the answer to a call that ended in a panic.
var errPanicked = errors.New("internal error of the fairslice extender, see its log")

func (s *Server) bindPod(ctx context.Context, pod PodKey, node string) error {
	view, known := s.ledger.Lookup(pod.UID)
	if !known {
		return s.bindUnknown(ctx, pod, node)
	}
	if view.Namespace != pod.Namespace || view.Name != pod.Name {
		return fmt.Errorf("pod %s has not UID %s, which is that of %s/%s", pod, pod.UID, view.Namespace, view.Name)
	}
	if !view.Interested {
		return s.write(ctx, pod, node, "")
	}
	assignment, err := s.ledger.Assume(pod.UID, node)
	if err != nil {
		return fmt.Errorf("pod %s cannot be bound to node %s: %w", pod, node, err)
	}
	if err := s.awaitGang(ctx, pod, view.Workload); err != nil {
		return err
	}
	return s.writeAssumed(ctx, pod, node, assignment)
}

// bindUnknown tells a late repeat, which is a success, from a pod that the
// watch has not brought yet.
func (s *Server) bindUnknown(ctx context.Context, pod PodKey, node string) error {
	bound, err := s.binder.BoundTo(ctx, pod)
	switch {
	case err != nil:
		return fmt.Errorf("pod %s (UID %s): %w", pod, pod.UID, err)
	case bound == node:
		return nil
	case bound != "":
		return fmt.Errorf("pod %s is bound to node %s already, not to %s", pod, bound, node)
	}
	return fmt.Errorf("pod %s (UID %s) has not reached the extender's cache yet; try again", pod, pod.UID)
}

// errGangShort says that a gang lost members that it needs while others waited.
var errGangShort = errors.New("the gang has too few members with a place")

// awaitGang blocks until the gang's minimum has been assumed; after an error the
// pod is so no more.
func (s *Server) awaitGang(ctx context.Context, pod PodKey, workload string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.options.BarrierTimeout,
		fmt.Errorf("the others did not arrive within %s", s.options.BarrierTimeout))
	defer cancel()
	ctx, stop := s.whileGangHolds(ctx, pod)
	defer stop()
	started := time.Now()
	var have, need int
	err := s.gangs.pass(ctx, workload, func() bool {
		ready, _, _ := s.ledger.GangReady(workload)
		return ready
	}, func() {
		_, have, need = s.ledger.GangReady(workload)
		s.ledger.Forget(pod.UID)
	})
	s.metrics.barrier.Observe(time.Since(started).Seconds())
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); errors.Is(cause, ErrPodGone) {
		return fmt.Errorf("pod %s (UID %s): %w", pod, pod.UID, cause)
	}
	return fmt.Errorf("gang %s: %d of the %d members that must start together were ready to bind: %w; all of them try again",
		workload, have, need, context.Cause(ctx))
}

// whileGangHolds ends ctx when the pod is gone, or when its gang has lost so
// many members that waiting is in vain.
func (s *Server) whileGangHolds(ctx context.Context, pod PodKey) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	tick := time.NewTicker(s.options.GangCheck)
	go func() {
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			view, known := s.ledger.Lookup(pod.UID)
			switch {
			case !known:
				cancel(ErrPodGone)
			case view.Gang.Held() < view.Gang.Minimum:
				cancel(errGangShort)
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// writeAssumed writes the binding of a pod whose room is assumed. Once a gang
// has passed its barrier every member must try to the end, so the caller's
// hanging up does not stop the write.
func (s *Server) writeAssumed(ctx context.Context, pod PodKey, node, assignment string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.WriteTimeout)
	defer cancel()
	err := s.write(ctx, pod, node, assignment)
	switch {
	case err == nil:
		s.ledger.ConfirmBound(pod.UID)
	case errors.Is(err, errOutcomeUnknown):
		s.ledger.Doubt(pod.UID)
	default:
		s.ledger.Forget(pod.UID)
	}
	return err
}

var errOutcomeUnknown = errors.New("whether the binding was written is not known yet")

// write binds the pod and settles what an error meant by reading the pod back.
func (s *Server) write(ctx context.Context, pod PodKey, node, assignment string) error {
	annotations := map[string]string{}
	if assignment != "" {
		annotations[v1alpha1.AnnotationGPUAssignment] = assignment
	}
	wait := s.options.RetryDelay
	mayLand := false // one of the writes, later
	for {
		err := s.binder.Bind(ctx, pod, node, annotations)
		if err == nil {
			return nil
		}
		mayLand = mayLand || unanswered(err)
		bound, readErr := s.binder.BoundTo(ctx, pod)
		switch {
		case errors.Is(readErr, ErrPodGone):
			return fmt.Errorf("pod %s (UID %s): %w", pod, pod.UID, ErrPodGone)
		case readErr == nil && bound == node:
			return nil
		case readErr == nil && bound != "":
			return fmt.Errorf("pod %s is bound to node %s already, not to %s", pod, bound, node)
		case readErr == nil && !temporary(err) && !mayLand:
			return fmt.Errorf("binding pod %s to node %s was refused: %w", pod, node, err)
		}
		select {
		case <-time.After(wait):
			wait *= 2
		case <-ctx.Done():
			if readErr == nil && !mayLand {
				return fmt.Errorf("binding pod %s to node %s failed for %s: %w", pod, node, s.options.WriteTimeout, err)
			}
			return fmt.Errorf("binding pod %s to node %s: %w (%w)", pod, node, errOutcomeUnknown, err)
		}
	}
}

func outcome(err error) string {
	if err != nil {
		return "error"
	}
	return "bound"
}

func text(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}
