// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/fairslice/fairslice/extender"
	"github.com/fairslice/fairslice/kube"
)

// leaseName is the lease that says who decides.
const leaseName = "fairslice-controlplane"

// errStandby is why a replica without the lease is not ready.
var errStandby = errors.New("another replica holds the lease")

// leadership is the ledger as the extender sees it: ready only where and while
// this replica leads.
type leadership struct {
	*kube.Ledger
	standalone bool
	elector    atomic.Pointer[leaderelection.LeaderElector]
	leading    atomic.Bool
	// margin is how far before the lease's end this replica stops, so that one
	// which was paused does not decide on a lease that others may have taken.
	margin time.Duration
}

// Ready is nil if the ledger is complete and this replica may decide.
func (l *leadership) Ready() error {
	if err := l.Ledger.Ready(); err != nil {
		return err
	}
	return l.leads()
}

// leads is nil while this replica holds the lease for certain.
func (l *leadership) leads() error {
	if l.standalone {
		return nil
	}
	elector := l.elector.Load()
	if !l.leading.Load() || !elector.IsLeader() {
		return errStandby
	}
	if err := elector.Check(-l.margin); err != nil {
		return fmt.Errorf("the lease was not renewed in time: %w", err)
	}
	return nil
}

// fencedBinder binds only while this replica leads, also what was asked for
// before it was paused.
type fencedBinder struct {
	extender.Binder
	leads func() error
}

// Bind implements extender.Binder.
func (b fencedBinder) Bind(ctx context.Context, pod extender.PodKey, node string, annotations map[string]string) error {
	if err := b.leads(); err != nil {
		return err
	}
	return b.Binder.Bind(ctx, pod, node, annotations)
}

// election is how replicas agree on who decides.
type election struct {
	enabled   bool
	namespace string
	lease     time.Duration
}

// run calls work while this replica leads. Losing the lease is an error: the
// process ends and starts again from the API server.
func (e election) run(ctx context.Context, client kubernetes.Interface, leader *leadership, work func(context.Context) error, log *slog.Logger) error {
	if !e.enabled {
		return work(ctx)
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("name this replica: %w", err)
	}
	identity := host + "_" + uuid.NewString()
	leader.margin = e.lease / 3
	begun, result := make(chan struct{}), make(chan error, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: e.namespace, Name: leaseName},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		LeaseDuration:   e.lease,
		RenewDeadline:   e.lease * 2 / 3,
		RetryPeriod:     e.lease / 8,
		ReleaseOnCancel: true,
		Name:            leaseName,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				close(begun)
				log.Info("this replica leads", "identity", identity)
				leader.Adopt()
				leader.leading.Store(true)
				result <- work(ctx)
			},
			OnStoppedLeading: func() { leader.leading.Store(false) },
			OnNewLeader: func(id string) {
				if id != identity {
					log.Info("another replica leads", "identity", id)
				}
			},
		},
	})
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}
	leader.elector.Store(elector)
	elector.Run(ctx)
	var ended error // nil if it was told to end, which is no failure
	if ctx.Err() == nil {
		ended = errors.New("the lease was lost")
	}
	select {
	case <-begun:
	default:
		return ended // there is no work that has to end
	}
	select {
	case err := <-result:
		return errors.Join(err, ended)
	case <-time.After(5 * time.Second):
		return ended
	}
}
