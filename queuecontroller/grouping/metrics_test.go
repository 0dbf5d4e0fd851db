// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
)

// values are the resolver's metrics by name and label.
func (r *rig) values() map[string]float64 {
	r.t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := r.Register(registry); err != nil {
		r.t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := []string{strings.TrimPrefix(f.GetName(), "fairslice_grouping_")}
			for _, l := range m.GetLabel() {
				name = append(name, l.GetValue())
			}
			out[strings.Join(name, " ")] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return out
}

func (r *rig) want(when string, want map[string]float64) {
	r.t.Helper()
	got := r.values()
	for name, value := range want {
		if got[name] != value {
			r.t.Errorf("%s: %s is %v, want %v; all are %v", when, name, got[name], value, got)
		}
	}
}

// TestMetrics: a pod is held, its kind becomes readable, and another kind may not
// be read.
func TestMetrics(t *testing.T) {
	r := newRig(t, time.Minute)
	r.metadata.PrependReactor("list", "widgets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Group: "example.org", Resource: "widgets"}, "", nil)
	})
	uid := r.observe("a", "JobSet", "train", "js", ofTrain)
	r.want("before the owner is read", map[string]float64{"held_pods": 1, "lookups_total complete": 0, "groups": 0})
	if r.values()["lookups_total held"] < 1 {
		t.Errorf("no look is counted as held: %v", r.values())
	}
	r.put(fmt.Sprintf(trainSet, 2))
	r.eventually(uid, "team/jobset/train@js")
	r.want("after the owner is read", map[string]float64{
		"held_pods": 0, "lookups_total complete": 1, "groups": 1, "cached_objects JobSet.jobset.x-k8s.io": 1, "kinds readable": 1, "kinds refused": 0,
	})
	r.observe("b", "Widget", "w", "w", nil)
	for end := time.Now().Add(5 * time.Second); r.values()["kinds refused"] == 0 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	r.want("after a kind is refused", map[string]float64{"kinds refused": 1, "errors_total Widget.example.org": 1, "cached_objects JobSet.jobset.x-k8s.io": 1})
}
