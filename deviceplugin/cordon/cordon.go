// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cordon

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fairslice/fairslice/api/v1alpha1"
)

// Reason is why a cordoned GPU takes no new containers.
const Reason = "it is cordoned by annotation " + v1alpha1.AnnotationCordonedGPUs + " of the node"

// GPU as it can be named: by the UUID, which stays, or by the driver's index, which
// a reboot may change. A MIG instance can also be named by the UUID or index of its
// card, with all others of it.
type GPU struct {
	UUID, Card string
	Index      int
}

// Parse returns the UUIDs of the GPUs that the annotation's value names, in the
// node's order, and one sentence about what it cannot read, nil if it reads all.
func Parse(value, node string, gpus []GPU) ([]string, error) {
	named := map[string]bool{}
	var unknown []string
	for entry := range strings.SplitSeq(value, ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		found := false
		for _, g := range gpus {
			if strings.EqualFold(g.UUID, entry) || strings.EqualFold(g.Card, entry) || strconv.Itoa(g.Index) == entry {
				named[g.UUID], found = true, true
			}
		}
		if quoted := shown(entry); !found && !slices.Contains(unknown, quoted) {
			unknown = append(unknown, quoted)
		}
	}
	var out, have []string
	for _, g := range gpus {
		if named[g.UUID] {
			out = append(out, g.UUID)
		}
		if card := fmt.Sprintf("%d (%s)", g.Index, cmp.Or(g.Card, g.UUID)); !slices.Contains(have, card) {
			have = append(have, card)
		}
	}
	if len(unknown) == 0 {
		return out, nil
	}
	more := ""
	if len(unknown) > maxShown {
		unknown, more = unknown[:maxShown], " and more"
	}
	return out, fmt.Errorf("annotation %s of node %s names %s%s, must name GPUs that the device plugin serves, by UUID or index: %s",
		v1alpha1.AnnotationCordonedGPUs, node, strings.Join(unknown, ", "), more, strings.Join(have, ", "))
}

// An event's message has at most 1024 bytes.
const (
	maxShown      = 4
	maxShownBytes = 64
)

func shown(entry string) string {
	if len(entry) > maxShownBytes {
		entry = entry[:maxShownBytes] + "…"
	}
	return strconv.Quote(entry)
}
