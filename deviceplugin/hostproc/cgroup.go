// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package hostproc

import (
	"regexp"
	"strings"
)

// Container names a container of a pod by what its cgroup tells.
type Container struct {
	// PodUID as the API has it; of a static pod, the kubelet's own. Empty where the
	// path shows none: the process is not in a pod, or in one that shares its
	// parent cgroup with the reader.
	PodUID string
	// ID of the container at its runtime, without the runtime's name; empty for
	// what a pod runs beside its containers.
	ID string
}

var (
	// A UID, its dashes turned into underscores by the systemd driver; a static
	// pod's is a bare hash. At the end of a slice's name, or a whole segment.
	podSegment = regexp.MustCompile(`^(?:(?:[A-Za-z0-9_.]+-)*kubepods(?:-[a-z]+)?-)?pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?(?::.*)?$`)
	// CRI-O's monitor has a cgroup of its own and is not the container.
	containerSegment = regexp.MustCompile(`^(?:cri-containerd-|crio-|docker-|libpod-)?([0-9a-f]{64})(?:\.scope)?$`)
	mixedDrivers     = regexp.MustCompile(`\.slice:[a-z-]+:([0-9a-f]{64})$`)
)

// ParseCgroup reads /proc/<pid>/cgroup. It returns the zero Container for a process
// that is in no container.
func ParseCgroup(text string) Container {
	var best Container
	for line := range strings.Lines(text) {
		// <hierarchy>:<controllers>:<path>; a path may hold colons.
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		if c := parsePath(parts[2]); c.better(best) {
			best = c
		}
	}
	return best
}

// better prefers a path with a pod, and then one with a container: on a hybrid
// host some hierarchies end above the container.
func (c Container) better(than Container) bool {
	rank := func(c Container) int {
		r := 0
		if c.PodUID != "" {
			r += 2
		}
		if c.ID != "" {
			r++
		}
		return r
	}
	return rank(c) > rank(than)
}

func parsePath(path string) Container {
	var c Container
	for segment := range strings.SplitSeq(path, "/") {
		if c.PodUID == "" {
			if m := podSegment.FindStringSubmatch(segment); m != nil {
				// Whatever contains the pod (a node that is itself a container) is
				// not its container.
				c = Container{PodUID: strings.ReplaceAll(m[1], "_", "-")}
				if m := mixedDrivers.FindStringSubmatch(segment); m != nil {
					c.ID = m[1]
				}
				continue
			}
		}
		if m := containerSegment.FindStringSubmatch(segment); m != nil && c.ID == "" {
			c.ID = m[1]
		}
	}
	return c
}
