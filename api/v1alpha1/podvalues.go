// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// What the control plane and the admission policies share.
const (
	// SystemNamespace is where the manifests put the components.
	SystemNamespace = "fairslice-system"
	// BacklogConfigMap, in SystemNamespace, has one key for each queue with a
	// backlog. The admission policy gates new pods of those queues alone. Only
	// the control plane writes it; the value of a key is the number of pods
	// that wait.
	BacklogConfigMap = "fairslice-backlog"
	// ControlPlaneServiceAccount and DevicePluginServiceAccount are the two
	// that may write AnnotationGPUAssignment.
	ControlPlaneServiceAccount = "fairslice-controlplane"
	DevicePluginServiceAccount = "fairslice-device-plugin"
)

// MaxGPUCount is the largest value of AnnotationGPUCount.
const MaxGPUCount = 16

// MaxGPUProcesses is the largest value of AnnotationGPUProcesses: as many clients
// as MPS lets share a device.
const MaxGPUProcesses = 48

// Values of AnnotationNodePlacement and AnnotationGPUPlacement.
const (
	PlacementPack   = "pack"
	PlacementSpread = "spread"
)

// Isolation levels in LabelGPUIsolation and AnnotationMinIsolation.
const (
	IsolationMIG       = "mig"
	IsolationCgroup    = "cgroup"
	IsolationMPS       = "mps"
	IsolationIntercept = "intercept"
	IsolationWatch     = "watch"
	IsolationNone      = "none"
)

// isolationLevels from strongest to weakest.
var isolationLevels = []string{
	IsolationMIG, IsolationCgroup, IsolationMPS, IsolationIntercept, IsolationWatch, IsolationNone,
}

// ParseGPUCount reads the value of AnnotationGPUCount: 1 to MaxGPUCount in
// plain decimal digits. Every component and the admission policy read it the
// same way, so none accepts what another refuses.
func ParseGPUCount(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > MaxGPUCount || strconv.Itoa(n) != s {
		return 0, fmt.Errorf("annotation %s is %q, must be a whole number from 1 to %d", AnnotationGPUCount, s, MaxGPUCount)
	}
	return n, nil
}

// ParseGPUProcesses reads the value of AnnotationGPUProcesses: 1 to
// MaxGPUProcesses in plain decimal digits.
func ParseGPUProcesses(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > MaxGPUProcesses || strconv.Itoa(n) != s {
		return 0, fmt.Errorf("annotation %s is %q, must be a whole number from 1 to %d", AnnotationGPUProcesses, s, MaxGPUProcesses)
	}
	return n, nil
}

// ParsePlacement reads the value of AnnotationNodePlacement or
// AnnotationGPUPlacement; key is named in the error.
func ParsePlacement(key, s string) (string, error) {
	if s != PlacementPack && s != PlacementSpread {
		return "", fmt.Errorf("annotation %s is %q, must be %s or %s", key, s, PlacementPack, PlacementSpread)
	}
	return s, nil
}

// ParsePreemptible reads the value of LabelPreemptible.
func ParsePreemptible(s string) (bool, error) {
	if s != "true" && s != "false" {
		return false, fmt.Errorf("label %s is %q, must be true or false", LabelPreemptible, s)
	}
	return s == "true", nil
}

// ParseIsolation reads an isolation level and returns its rank: 0 for none,
// higher for stronger.
func ParseIsolation(s string) (int, error) {
	i := slices.Index(isolationLevels, s)
	if i < 0 {
		return 0, fmt.Errorf("isolation level %q must be one of %s", s, strings.Join(isolationLevels, ", "))
	}
	return len(isolationLevels) - 1 - i, nil
}
