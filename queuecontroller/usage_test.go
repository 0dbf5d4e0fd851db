// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package queuecontroller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/core/usage"
	"github.com/fairslice/fairslice/kube"
)

// newUsageStand is a stand in which past usage counts, with a half-life of an
// hour, and queue a holds the whole cluster.
func newUsageStand(t *testing.T, client *fake.Clientset) *stand {
	s := newStand(t, nil)
	config := kube.DefaultConfig()
	config.UsageHalfLife = time.Hour
	s.ledger = kube.NewLedger(config, s.now, slog.New(slog.DiscardHandler))
	if client != nil {
		s.client = client
	}
	var err error
	s.control, err = New(Options{
		Ledger: s.ledger, Client: s.client, Dynamic: s.dynamic, Log: slog.New(slog.DiscardHandler), Clock: s.now,
		Registry: prometheus.NewRegistry(), Recorder: s.events, Config: config,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.node("n1", 1)
	s.queue("a", 0)
	s.queue("b", 0)
	s.pod("a1", "a", 1, running("n1"))
	return s
}

// used is what a queue used of the GPUs, as its status says.
func (s *stand) used(queue string) string {
	for _, q := range s.ledger.Queues() {
		if q.Object.Name == queue {
			v := s.control.status.queueStatus(q).Usage["gpu"]
			return v.String()
		}
	}
	return "no such queue"
}

func (s *stand) storedUsage() *corev1.ConfigMap {
	s.t.Helper()
	m, err := s.client.CoreV1().ConfigMaps("fairslice-system").Get(s.t.Context(), "fairslice-usage", metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return m
}

// TestUsageSurvivesARestart: killed between two writes, the next process knows
// all but what came after the last one.
func TestUsageSurvivesARestart(t *testing.T) {
	first := newUsageStand(t, nil)
	first.control.usage.start(t.Context())
	first.control.cycle()
	first.advance(10 * time.Minute)
	first.control.cycle()
	if got := first.used("a"); got != "1" {
		t.Fatalf("queue a used %s, want 1", got)
	}
	if err := first.control.usage.step(t.Context()); err != nil {
		t.Fatal(err)
	}
	first.advance(59 * time.Second) // never stored

	next := newUsageStand(t, first.client)
	next.ledger.RemovePod("uid-a1")
	next.advance(11 * time.Minute)
	next.control.usage.start(t.Context())
	next.control.cycle()
	if a, b := next.used("a"), next.used("b"); a != "1" || b != "0" {
		t.Errorf("after the restart a used %s and b %s, want 1 and 0", a, b)
	}
}

// TestUsageIsStoredAtTheEnd of a leader's time, also within the minute.
func TestUsageIsStoredAtTheEnd(t *testing.T) {
	s := newUsageStand(t, nil)
	s.run(func() bool { return s.count("create configmaps") > 0 })
	before := s.storedUsage().BinaryData[usageKey]
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.advance(10 * time.Second)
	s.control.usage.run(ctx)
	if string(s.storedUsage().BinaryData[usageKey]) == string(before) {
		t.Error("the last seconds were not stored")
	}
}

// TestDamagedUsageStartsEmpty, is said in one line, and is replaced.
func TestDamagedUsageStartsEmpty(t *testing.T) {
	s := newUsageStand(t, fake.NewClientset(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fairslice-system", Name: "fairslice-usage"},
		BinaryData: map[string][]byte{usageKey: []byte("not ours")},
	}))
	var log strings.Builder
	s.control.options.Log = slog.New(slog.NewTextHandler(&log, nil))
	s.control.usage.start(t.Context())
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "ConfigMap fairslice-system/fairslice-usage") {
		t.Errorf("said %q, want one line that names the ConfigMap", got)
	}
	s.control.cycle()
	s.advance(time.Minute)
	if err := s.control.usage.step(t.Context()); err != nil {
		t.Fatal(err)
	}
	data, err := unpack(s.storedUsage().BinaryData[usageKey])
	if err == nil {
		err = s.ledger.RestoreUsage(data)
	}
	if err != nil {
		t.Errorf("what was stored instead: %v", err)
	}
}

// TestUnreadUsageIsNotOverwritten: while the API server does not let it be read,
// it is not written either, and decisions go on after a while.
func TestUnreadUsageIsNotOverwritten(t *testing.T) {
	s := newUsageStand(t, nil)
	down := true
	s.client.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return down, nil, errors.New("no connection")
	})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	s.control.usage.start(ctx)
	s.control.cycle()
	if s.control.usage.step(t.Context()) == nil || s.count("configmaps") > 0 {
		t.Error("usage was stored over what was not read")
	}
	down = false
	for range 2 { // reads, then stores
		if err := s.control.usage.step(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if s.count("create configmaps") != 1 {
		t.Error("usage was not stored after the API server was back")
	}
}

// TestALeaderThatStopsGivesWay: its last write does not replace what its
// successor has written, and the successor's replaces whatever there is.
func TestALeaderThatStopsGivesWay(t *testing.T) {
	s := newUsageStand(t, nil)
	s.control.usage.start(t.Context())
	s.control.cycle()
	if err := s.control.usage.step(t.Context()); err != nil {
		t.Fatal(err)
	}
	conflicts := 0
	s.client.PrependReactor("update", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		conflicts++
		if conflicts < 3 {
			return true, nil, apierrors.NewConflict(corev1.Resource("configmaps"), "fairslice-usage", fmt.Errorf("changed"))
		}
		return false, nil, nil
	})
	s.advance(time.Minute)
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	s.control.usage.run(stopped)
	if conflicts != 1 {
		t.Errorf("the leader that stopped tried %d times, want once", conflicts)
	}
	if err := s.control.usage.step(t.Context()); err != nil || conflicts != 3 {
		t.Errorf("the leader stored after %d tries: %v", conflicts, err)
	}
}

// pastOf is a week of queues with names as long as they may be, each of which
// used something else of four resources at any time, the first ones most.
func pastOf(now time.Time, queues int) []byte {
	total := amount.Vector{1 << 40, 1 << 40, 1 << 40, 1 << 40}
	tree := &model.QueueTree{Resources: []string{"gpu", "cpu", "memory", "gpu/NVIDIA-H100-80GB-HBM3"}, Total: total}
	for i := range queues {
		tree.Queues = append(tree.Queues, model.QueueNode{Name: fmt.Sprintf("department-%04d-%s", i, strings.Repeat("x", 47)), Allocated: make(amount.Vector, len(total))})
	}
	random := rand.New(rand.NewPCG(1, 2))
	account := usage.New(usage.Options{})
	for ago := 7 * 24 * time.Hour; ago > 0; ago -= time.Hour {
		for i := range tree.Queues {
			for r := range total {
				tree.Queues[i].Allocated[r] = total[r]/2000 + amount.Amount(random.Int64N(1<<29)*int64(queues-i)/int64(queues))
			}
		}
		account.Observe(now.Add(-ago).UnixNano(), tree)
	}
	data, _ := account.MarshalLargest(queues)
	return data
}

// TestUsageOfManyQueuesIsStored whole while it fits, else that of those who used
// most, which is said once.
func TestUsageOfManyQueuesIsStored(t *testing.T) {
	for _, c := range []struct {
		queues int
		all    bool
	}{{1200, true}, {2400, false}} {
		s := newUsageStand(t, nil)
		var log strings.Builder
		s.control.options.Log = slog.New(slog.NewTextHandler(&log, nil))
		tooBig := func(a clienttesting.Action) (bool, runtime.Object, error) {
			written := a.(clienttesting.CreateAction).GetObject().(*corev1.ConfigMap) // an update has it too
			return len(written.BinaryData[usageKey]) > 1<<20, nil, apierrors.NewRequestEntityTooLargeError("1 MiB")
		}
		s.client.PrependReactor("create", "configmaps", tooBig)
		s.client.PrependReactor("update", "configmaps", tooBig)
		past := pastOf(s.now(), c.queues)
		if len(past) < 1<<20 {
			t.Fatalf("%d queues take only %d bytes", c.queues, len(past))
		}
		s.control.usage.start(t.Context())
		if err := s.ledger.RestoreUsage(past); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := s.control.usage.step(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.advance(time.Minute)
		}
		lines := 1
		if c.all {
			lines = 0
		}
		if got := log.String(); strings.Count(got, "\n") != lines {
			t.Errorf("of %d queues it was said %q, want %d lines", c.queues, got, lines)
		}
		data, err := unpack(s.storedUsage().BinaryData[usageKey])
		if err != nil {
			t.Fatal(err)
		}
		read := usage.New(usage.Options{})
		if err := read.UnmarshalBinary(data); err != nil {
			t.Fatal(err)
		}
		parts := read.Parts(s.now().UnixNano())
		if _, first := parts[fmt.Sprintf("department-0000-%s", strings.Repeat("x", 47))]; !first || len(parts) < 1000 || len(parts) < c.queues && c.all {
			t.Errorf("of %d queues %d are stored, that which used most: %v", c.queues, len(parts), first)
		}
	}
}

// TestUsageOfEarlierVersionsIsRead: they did not compress it.
func TestUsageOfEarlierVersionsIsRead(t *testing.T) {
	data := pastOf(time.Unix(1_800_000_000, 0), 3)
	s := newUsageStand(t, fake.NewClientset(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fairslice-system", Name: "fairslice-usage"},
		BinaryData: map[string][]byte{usageKey: data},
	}))
	s.control.usage.start(t.Context())
	if _, queues := s.ledger.SaveUsage(math.MaxInt); queues < 3 {
		t.Errorf("%d queues were read, want 3", queues)
	}
}
