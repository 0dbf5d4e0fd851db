// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

func TestAmountReadsNumbersAndWords(t *testing.T) {
	for _, c := range []struct{ json, text string }{
		{`8`, "8"},
		{`"8"`, "8"},
		{`0`, "0"},
		{`"500m"`, "500m"},
		{`"2.5"`, "2500m"},
		{`"64Gi"`, "64Gi"},
		{`"1e30"`, "1e30"},
		{`9223372036854775807`, "9223372036854775807"},
		{`"unlimited"`, "unlimited"},
	} {
		var a Amount
		if err := json.Unmarshal([]byte(c.json), &a); err != nil {
			t.Errorf("%s: %v", c.json, err)
			continue
		}
		if got := a.String(); got != c.text {
			t.Errorf("%s became %q, want %q", c.json, got, c.text)
		}
		if _, finite := a.Quantity(); finite == a.IsUnlimited() {
			t.Errorf("%s: Quantity says finite %v, IsUnlimited %v", c.json, finite, a.IsUnlimited())
		}
	}
}

func TestAmountRefusesTheRest(t *testing.T) {
	for _, raw := range []string{`-1`, `"-1"`, `"NaN"`, `"Inf"`, `""`, `" 1"`, `"1 "`, `"1.5x"`, `"0,5"`, `"0x1p-1"`, `"Unlimited"`, `null`, `true`, `{}`, `[]`} {
		var a Amount
		if err := a.UnmarshalJSON([]byte(raw)); err == nil {
			t.Errorf("%s was read as %v", raw, a)
		}
	}
}

// FuzzParseAmount: what is read is zero or more, and its text reads the same.
func FuzzParseAmount(f *testing.F) {
	for _, seed := range []string{"0", "8", "500m", "-1", "unlimited", "1e30", "1Ei", "NaN", "", "0.0000001", "9223372036854775808"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseAmount(text)
		if err != nil {
			return
		}
		if q, finite := a.Quantity(); finite && q.Sign() < 0 {
			t.Fatalf("%q is negative", text)
		}
		again, err := ParseAmount(a.String())
		if err != nil {
			t.Fatalf("%q became %q, which is refused: %v", text, a, err)
		}
		before, after := a.quantity, again.quantity
		if a.unlimited != again.unlimited || before.Cmp(after) != 0 {
			t.Fatalf("%q became %q", text, again)
		}
	})
}

// A queue travels as unstructured content too: the dynamic client's converter
// must honour Amount's own format.
func TestQueueThroughTheUnstructuredConverter(t *testing.T) {
	var content map[string]any
	if err := yaml.Unmarshal([]byte(`{spec: {quota: {gpu: 8, memory: 64Gi}, limit: {gpu: unlimited}, overQuotaWeight: {gpu: 2}, reclaimMinRuntime: 10m}}`), &content); err != nil {
		t.Fatal(err)
	}
	content["spec"].(map[string]any)["quota"].(map[string]any)["gpu"] = int64(8)
	var q Queue
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &q); err != nil {
		t.Fatal(err)
	}
	if got := q.Spec.Quota["gpu"]; got.String() != "8" {
		t.Errorf("quota of gpu is %s, want 8", got)
	}
	if got := q.Spec.Limit["gpu"]; !got.IsUnlimited() {
		t.Errorf("limit of gpu is %s, want unlimited", got)
	}
	if q.Spec.ReclaimMinRuntime.Minutes() != 10 {
		t.Errorf("reclaimMinRuntime is %v, want 10m", q.Spec.ReclaimMinRuntime)
	}
	back, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&q)
	if err != nil {
		t.Fatal(err)
	}
	if got := back["spec"].(map[string]any)["limit"].(map[string]any)["gpu"]; got != "unlimited" {
		t.Errorf("limit of gpu was written as %v, want unlimited", got)
	}
}

func TestDeepCopyOfAmountIsApart(t *testing.T) {
	a, err := ParseAmount("123456789012345678901234567890")
	if err != nil {
		t.Fatal(err)
	}
	b := a.DeepCopy()
	b.quantity.Neg()
	if a.quantity.Sign() < 0 {
		t.Error("changing the copy changed the original")
	}
	if (*Amount)(nil).DeepCopy() != nil {
		t.Error("the copy of nil is not nil")
	}
}

func TestParseGPUProcesses(t *testing.T) {
	for text, want := range map[string]int{"1": 1, "48": 48, "": 0, "0": 0, "49": 0, "-1": 0, "02": 0, "2 ": 0, "1.0": 0, "four": 0} {
		got, err := ParseGPUProcesses(text)
		if got != want || (err == nil) != (want > 0) || err != nil && !strings.Contains(err.Error(), "from 1 to 48") {
			t.Errorf("ParseGPUProcesses(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
}

// CASES R02: one number for every component, or none.
func TestParseGPUCount(t *testing.T) {
	for text, want := range map[string]int{
		"1": 1, "2": 2, "16": 16,
		"": 0, "0": 0, "-0": 0, "-1": 0, "17": 0, "+2": 0, "02": 0, " 2": 0, "2 ": 0, "2\n": 0, "2x": 0, "1.0": 0, "0,5": 0, "1e0": 0, "0x1": 0,
		"NaN": 0, "nan": 0, "Inf": 0, "-Inf": 0, "1e400": 0, "99999999999999999999": 0, "२": 0,
	} {
		got, err := ParseGPUCount(text)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("ParseGPUCount(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
}

func TestWordsOfLabelsAndAnnotations(t *testing.T) {
	for _, s := range []string{"pack", "spread"} {
		if got, err := ParsePlacement(AnnotationGPUPlacement, s); got != s || err != nil {
			t.Errorf("ParsePlacement(%q) = %q, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "binpack", "Pack"} {
		if _, err := ParsePlacement(AnnotationGPUPlacement, s); err == nil {
			t.Errorf("ParsePlacement(%q) was accepted", s)
		}
		if _, err := ParsePreemptible(s); err == nil {
			t.Errorf("ParsePreemptible(%q) was accepted", s)
		}
		if _, err := ParseIsolation(s); err == nil {
			t.Errorf("ParseIsolation(%q) was accepted", s)
		}
	}
	if yes, err := ParsePreemptible("true"); !yes || err != nil {
		t.Errorf("ParsePreemptible(true) = %v, %v", yes, err)
	}
	if yes, err := ParsePreemptible("false"); yes || err != nil {
		t.Errorf("ParsePreemptible(false) = %v, %v", yes, err)
	}
	last := math.MaxInt
	for _, s := range isolationLevels {
		rank, err := ParseIsolation(s)
		if err != nil || rank >= last {
			t.Errorf("ParseIsolation(%q) = %d, %v; want less than %d", s, rank, err, last)
		}
		last = rank
	}
	if last != 0 {
		t.Errorf("the rank of none is %d, want 0", last)
	}
}
