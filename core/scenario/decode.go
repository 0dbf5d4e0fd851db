// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
)

// Read reads every JSON document of data, in order, strictly: each is checked
// on its own. Errors name the document (if there are several), the path and
// what is allowed there.
func Read(data []byte) ([]*Scenario, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	var raws []json.RawMessage
	for {
		var raw json.RawMessage
		err := dec.Decode(&raw)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, syntaxError(data, err)
		}
		raws = append(raws, raw)
	}
	if len(raws) == 0 {
		return nil, errors.New("no scenario in the input")
	}
	scenarios := make([]*Scenario, 0, len(raws))
	for i, raw := range raws {
		s, err := readOne(raw)
		if err != nil {
			if len(raws) > 1 {
				err = fmt.Errorf("document %d: %w", i+1, err)
			}
			return nil, err
		}
		scenarios = append(scenarios, s)
	}
	return scenarios, nil
}

func readOne(raw json.RawMessage) (*Scenario, error) {
	s := new(Scenario)
	if err := decode(raw, "", reflect.ValueOf(s).Elem()); err != nil {
		return nil, err
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	return s, nil
}

func syntaxError(data []byte, err error) error {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return fmt.Errorf("not JSON: %w", err)
	}
	before := data[:min(int(syntax.Offset), len(data))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := len(before) - bytes.LastIndexByte(before, '\n') - 1
	return fmt.Errorf("not JSON, line %d column %d: %w", line, column, err)
}

// member is one key of a JSON object.
type member struct {
	key string
	raw json.RawMessage
}

// members splits an object and refuses a key that comes twice, which
// encoding/json would silently overwrite.
func members(raw json.RawMessage) ([]member, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	open, err := dec.Token()
	if err != nil || open != json.Delim('{') {
		return nil, errors.New("must be an object")
	}
	var out []member
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, err
		}
		key := token.(string)
		if seen[key] {
			return nil, fmt.Errorf("%s: comes twice", key)
		}
		seen[key] = true
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		out = append(out, member{key, value})
	}
	return out, nil
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// decode is encoding/json with paths in its errors, no unknown or repeated
// keys, and keys that match in case.
func decode(raw json.RawMessage, path string, into reflect.Value) error {
	raw = bytes.TrimSpace(raw)
	if into.Type() == reflect.TypeFor[json.RawMessage]() {
		into.SetBytes(bytes.Clone(raw))
		return nil
	}
	if string(raw) == "null" {
		return nil
	}
	switch {
	case into.Kind() == reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		return decode(raw, path, into.Elem())
	case into.Addr().Type().Implements(unmarshaler):
		return at(path, into.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(raw))
	}
	switch into.Kind() {
	case reflect.Struct:
		return decodeStruct(raw, path, into)
	case reflect.Slice:
		return decodeSlice(raw, path, into)
	case reflect.Map:
		return decodeMap(raw, path, into)
	}
	if err := json.Unmarshal(raw, into.Addr().Interface()); err != nil {
		return at(path, fmt.Errorf("is %s; must be %s", abridged(raw), kindName(into.Kind())))
	}
	return nil
}

func decodeStruct(raw json.RawMessage, path string, into reflect.Value) error {
	pairs, err := members(raw)
	if err != nil {
		return at(path, err)
	}
	fields := jsonFields(into.Type())
	for _, p := range pairs {
		i := slices.Index(fields, p.key)
		if i < 0 {
			return at(join(path, p.key), fmt.Errorf("unknown field; allowed: %s", strings.Join(fields, ", ")))
		}
		if err := decode(p.raw, join(path, p.key), into.Field(i)); err != nil {
			return err
		}
	}
	return nil
}

func decodeSlice(raw json.RawMessage, path string, into reflect.Value) error {
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return at(path, errors.New("must be a list"))
	}
	into.Set(reflect.MakeSlice(into.Type(), len(items), len(items)))
	for i, item := range items {
		if err := decode(item, fmt.Sprintf("%s[%d]", path, i), into.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

func decodeMap(raw json.RawMessage, path string, into reflect.Value) error {
	pairs, err := members(raw)
	if err != nil {
		return at(path, err)
	}
	into.Set(reflect.MakeMapWithSize(into.Type(), len(pairs)))
	for _, p := range pairs {
		value := reflect.New(into.Type().Elem()).Elem()
		if err := decode(p.raw, join(path, p.key), value); err != nil {
			return err
		}
		into.SetMapIndex(reflect.ValueOf(p.key), value)
	}
	return nil
}

func jsonFields(t reflect.Type) []string {
	names := make([]string, t.NumField())
	for i := range names {
		names[i], _, _ = strings.Cut(t.Field(i).Tag.Get("json"), ",")
	}
	return names
}

func kindName(k reflect.Kind) string {
	switch k {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Uint64:
		return "a whole number, at least 0"
	}
	return "a whole number"
}

func abridged(raw []byte) string {
	if len(raw) > maxDigits {
		return string(raw[:maxDigits]) + "…"
	}
	return string(raw)
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func at(path string, err error) error {
	if err == nil || path == "" {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// Write returns the scenario as one indented JSON document that Read accepts.
func Write(s *Scenario) ([]byte, error) {
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write scenario %s: %w", s.ID, err)
	}
	return append(out, '\n'), nil
}
