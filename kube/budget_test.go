// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// disrupted are the pods that a budget's status shows as accepted for eviction.
func disrupted(a args) map[string]metav1.Time {
	out := map[string]metav1.Time{}
	for name := range strings.SplitSeq(a["disrupted"], ",") {
		if name != "" {
			out[name] = metav1.Time{}
		}
	}
	return out
}
