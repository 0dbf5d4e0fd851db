// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import "github.com/fairslice/fairslice/core/scenario"

func (w *world) runTimeline(t *scenario.Timeline) ([]Round, error) { return nil, nil }
