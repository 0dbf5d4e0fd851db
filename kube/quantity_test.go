// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/model"
)

// TestQuotaOfALargeCluster: the memory of thousands of machines is not cut, and
// what no cluster has saturates.
func TestQuotaOfALargeCluster(t *testing.T) {
	for text, want := range map[string]amount.Amount{
		"2560Gi": 2560 << 30, "40Pi": 40 << 50, "7Ei": amount.Amount(largest), "9223372036854775807": amount.Amount(largest),
	} {
		var q v1alpha1.Queue
		if err := yaml.UnmarshalStrict([]byte("spec: {quota: {memory: "+text+"}}"), &q); err != nil {
			t.Fatal(err)
		}
		config := newPlayer().ledger.config
		out := config.QueueAmounts(&q)
		out.Name = "q"
		if got := out.Quota["memory"]; got != want {
			t.Errorf("a quota of %s memory is %d bytes, want %d", text, got, want)
		}
		if err := model.NewCluster(model.Settings{}).SetQueue(out); err != nil {
			t.Error(err)
		}
	}
}
