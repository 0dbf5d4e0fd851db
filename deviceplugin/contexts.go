// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"regexp"
	"strings"
)

// A CUDA context takes memory of the card that no container asked for. How much
// follows from the card's multiprocessors: 107 MiB on 34 (RTX 4060 Ti) and 555 MiB on
// 188 (RTX PRO 6000; both ggml-org/llama.cpp pull request 23604), 256 MiB on 82 (RTX
// 3090; invoke-ai/InvokeAI issue 9413), each for a context with nothing loaded.
const (
	// contextPerTenSMs is 3.2 MiB for each, above all three, in tenths.
	contextPerTenSMs = 32
	// unknownContextMiB is the upper end of what users report.
	unknownContextMiB = 600
)

// multiprocessors of NVIDIA's models, as its data sheets say: the first pattern that
// fits the driver's name of the model.
var multiprocessors = []struct {
	model *regexp.Regexp
	count int64
}{
	{regexp.MustCompile(`\bH100 PCIe\b`), 114},
	{regexp.MustCompile(`\b(H100|H200|GH200)\b`), 132},
	{regexp.MustCompile(`\bH20\b`), 78},
	{regexp.MustCompile(`\bB200\b`), 148},
	{regexp.MustCompile(`\b(A100|A800)\b`), 108},
	{regexp.MustCompile(`\b(L40S?|RTX 6000 Ada)\b`), 142},
	{regexp.MustCompile(`\bL4\b`), 58},
	{regexp.MustCompile(`\bRTX PRO 6000\b`), 188},
	{regexp.MustCompile(`\b(A40|A6000)\b`), 84},
	{regexp.MustCompile(`\bA30\b`), 56},
	{regexp.MustCompile(`\bA10G\b`), 80},
	{regexp.MustCompile(`\bA10\b`), 72},
	{regexp.MustCompile(`\b(A16|A2)\b`), 10},
	{regexp.MustCompile(`\bV100S?\b`), 80},
	{regexp.MustCompile(`\bT4\b`), 40},
	{regexp.MustCompile(`\bP100\b`), 56},
}

// contextMiB is the size of one context on a card of the model.
func contextMiB(model string) int64 {
	model = strings.ReplaceAll(model, "-", " ")
	for _, m := range multiprocessors {
		if m.model.MatchString(model) {
			return (m.count*contextPerTenSMs + 9) / 10
		}
	}
	return unknownContextMiB
}
