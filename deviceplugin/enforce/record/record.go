// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package record keeps, on disk, which container of which devices has which share
// of which GPUs: the kubelet asks once in a container's life, and a limit must be
// set again after a restart of the plugin or of the node.
//
// One JSON file per container, named by its ID. It decides nothing and reads no
// API. Memory is in MiB, compute in thousandths of a GPU.
package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/fairslice/fairslice/deviceplugin/enforce"
)

const (
	suffix = ".json"
	// youngest records are not cleared away: their container may not be on the
	// books yet.
	youngest = time.Minute
)

// ours are the names of enforce.ContainerID; nothing else is ever read or removed.
var ours = regexp.MustCompile(`^[0-9a-f]{20}\.json$`)

// Store is a directory of records.
type Store struct{ dir string }

// Open makes the directory if it is missing.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of limits: %w", err)
	}
	return &Store{dir}, nil
}

// Save replaces the record of a container, wholly or not at all.
func (s *Store) Save(c enforce.Container) error {
	raw, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encoding the limit of container %s: %w", c.ID, err)
	}
	tmp, err := os.CreateTemp(s.dir, ".new-*")
	if err != nil {
		return fmt.Errorf("recording the limit of container %s: %w", c.ID, err)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(raw)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), s.file(c.ID))
	}
	if err != nil {
		return fmt.Errorf("recording the limit of container %s: %w", c.ID, err)
	}
	return nil
}

// Load reads a record; known is false if there is none.
func (s *Store) Load(id string) (c enforce.Container, known bool, err error) {
	raw, err := os.ReadFile(s.file(id))
	if errors.Is(err, fs.ErrNotExist) {
		return c, false, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err == nil && c.ID != id {
		err = fmt.Errorf("it is of container %q", c.ID)
	}
	if err != nil {
		return c, false, fmt.Errorf("reading the recorded limit %s: %w", s.file(id), err)
	}
	return c, true, nil
}

// All lists the records by ID. Those that cannot be read are in the error.
func (s *Store) All() ([]enforce.Container, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("listing the recorded limits: %w", err)
	}
	var (
		out    []enforce.Container
		failed []error
	)
	for _, e := range entries {
		if !ours.MatchString(e.Name()) {
			continue
		}
		c, known, err := s.Load(strings.TrimSuffix(e.Name(), suffix))
		if known {
			out = append(out, c)
		}
		failed = append(failed, err)
	}
	return out, errors.Join(failed...)
}

// Keep removes the records of other containers, young ones excepted, and names
// those that it removed.
func (s *Store) Keep(ids map[string]bool) ([]string, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("listing the recorded limits: %w", err)
	}
	var (
		removed []string
		failed  []error
	)
	for _, e := range entries {
		id := strings.TrimSuffix(e.Name(), suffix)
		info, err := e.Info()
		if err != nil || ids[id] || !ours.MatchString(e.Name()) || time.Since(info.ModTime()) < youngest {
			continue
		}
		if err := os.Remove(s.file(id)); err != nil {
			failed = append(failed, err)
			continue
		}
		removed = append(removed, id)
	}
	return removed, errors.Join(failed...)
}

func (s *Store) file(id string) string { return filepath.Join(s.dir, id+suffix) }
