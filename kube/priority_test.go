// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"testing"

	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestDefaultPriority follows the class that is the default, which may stop to be
// it, while the end of an earlier one is told late.
func TestDefaultPriority(t *testing.T) {
	class := func(name string, value int32, isDefault bool) *schedulingv1.PriorityClass {
		return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, GlobalDefault: isDefault}
	}
	l := newPlayer().ledger
	for _, step := range []struct {
		name string
		does func()
		want int32
	}{
		{"no class", func() {}, defaultClassPriority},
		{"a class that is not the default", func() { l.SetPriorityClass(class("low", 1, false)) }, defaultClassPriority},
		{"a default", func() { l.SetPriorityClass(class("a", 10, true)) }, 10},
		{"it is so no more", func() { l.SetPriorityClass(class("a", 10, false)) }, defaultClassPriority},
		{"it is again", func() { l.SetPriorityClass(class("a", 10, true)) }, 10},
		{"another one follows", func() { l.SetPriorityClass(class("b", 20, true)) }, 20},
		{"the first goes, as last seen", func() { l.RemovePriorityClass(class("a", 10, true)) }, 20},
		{"the default goes", func() { l.RemovePriorityClass(class("b", 20, true)) }, defaultClassPriority},
	} {
		step.does()
		if got := l.classPriority("missing"); got != step.want {
			t.Errorf("%s: a class that does not exist counts as %d, want %d", step.name, got, step.want)
		}
	}
}
