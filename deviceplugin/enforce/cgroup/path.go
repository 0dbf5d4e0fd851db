// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// leaf is the control group (version 2) that the text of a /proc/<pid>/cgroup
// names, below the hierarchy's root, for example
// "/kubepods/burstable/pod<uid>/<id>". The root itself, and a control group outside
// the reader's namespace, are errors: a limit set there would hold others too.
func leaf(text string) (string, error) {
	for line := range strings.Lines(text) {
		group, unified := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::")
		if !unified {
			continue
		}
		switch {
		case strings.HasSuffix(group, " (deleted)"):
			return "", fmt.Errorf("its control group %q has been removed", group)
		case group == "/" || !strings.HasPrefix(group, "/"):
			return "", fmt.Errorf("its control group is %q, not one of its own", group)
		case path.Clean(group) != group || strings.HasPrefix(group, "/.."):
			return "", fmt.Errorf("its control group %q is outside this program's namespace", group)
		}
		return group, nil
	}
	return "", errors.New("it is in no control group of version 2, which the driver's limits need")
}
