// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"fmt"
	"slices"
	"strings"
)

// maxMembers bounds every count, as a PodGroup's minMember is bounded.
const maxMembers = 100000

// field is a value somewhere in an object, with the way to it. Reading one that
// is not there gives nothing; reading one of the wrong type is noted in the
// input as what is wrong with the object.
type field struct {
	in    *input
	path  string
	value any
}

// at reads a field of the rule's object, names separated by dots.
func (in *input) at(path string) field {
	f := field{in: in, value: in.owner.Object}
	for name := range strings.SplitSeq(path, ".") {
		f = f.get(name)
	}
	return f
}

func (f field) exists() bool { return f.value != nil }

// wrong notes what is wrong with the field.
func (f field) wrong(allowed string) {
	f.in.fail(fmt.Errorf("%s: %s is %v, must be %s", f.in.name(), f.path, shown(f.value), allowed))
}

func shown(value any) string {
	switch v := value.(type) {
	case nil:
		return "not set"
	case string:
		return fmt.Sprintf("%q", v)
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	}
	return fmt.Sprint(value)
}

func (f field) get(name string) field {
	out := field{in: f.in, path: strings.TrimPrefix(f.path+"."+name, ".")}
	switch m := f.value.(type) {
	case nil:
	case map[string]any:
		out.value = m[name]
	default:
		f.wrong("an object")
	}
	return out
}

// list returns the elements, each under its index.
func (f field) list() []field {
	if f.value == nil {
		return nil
	}
	items, ok := f.value.([]any)
	if !ok {
		f.wrong("a list")
	}
	out := make([]field, 0, len(items))
	for i, v := range items {
		out = append(out, field{f.in, fmt.Sprintf("%s[%d]", f.path, i), v})
	}
	return out
}

// names returns the names of the fields below, sorted.
func (f field) names() []string {
	m, ok := f.value.(map[string]any)
	if !ok {
		if f.value != nil {
			f.wrong("an object")
		}
		return nil
	}
	out := make([]string, 0, len(m))
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// count is a number of pods or the like.
func (f field) count(otherwise int) int {
	var n int64
	switch v := f.value.(type) {
	case nil:
		return otherwise
	case int64:
		n = v
	case float64:
		if n = int64(v); float64(n) != v {
			n = -1
		}
	default:
		n = -1
	}
	if n < 0 || n > maxMembers {
		f.wrong(fmt.Sprintf("a whole number from 0 to %d", maxMembers))
		return otherwise
	}
	return int(n)
}

// capped is a count of which no more than maxMembers matters: some are the largest
// number there is, where the API server fills in "any number".
func (f field) capped(otherwise int) int {
	if n, ok := f.value.(int64); ok && n > maxMembers {
		return maxMembers
	}
	return f.count(otherwise)
}

// times is how many pods a number of parts with so many pods each are.
func (f field) times(pods int) int {
	n := f.count(1)
	if n*pods > maxMembers {
		f.wrong(fmt.Sprintf("at most %d, so that there are no more than %d pods", maxMembers/pods, maxMembers))
		return maxMembers
	}
	return n * pods
}

func (f field) text() string {
	switch v := f.value.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	f.wrong("a text")
	return ""
}

func (f field) flag() bool {
	switch v := f.value.(type) {
	case nil:
		return false
	case bool:
		return v
	}
	f.wrong("true or false")
	return false
}

// annotations reads those of a template.
func (f field) annotations() map[string]string { return f.get("metadata").get("annotations").texts() }

func (f field) texts() map[string]string {
	out := map[string]string{}
	for _, name := range f.names() {
		out[name] = f.get(name).text()
	}
	return out
}

// spreadOver divides n into parts of size, the last one with the rest.
func spreadOver(n, size int) (parts []int) {
	for ; n > 0; n -= size {
		parts = append(parts, min(n, size))
	}
	return parts
}
