// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package scenarios

// known differences by scenario ID, each with the reason why the answer here
// is the better one.
var known = map[string]string{}
