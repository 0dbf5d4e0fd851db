// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package image writes container images without a registry, a daemon or a
// Dockerfile: one layer of given files in a tar of the OCI image layout
// (opencontainers/image-spec v1.1, image-layout.md), which containerd imports.
//
// It never pulls and never runs anything. Equal specs give byte-equal archives:
// entries are sorted, times are zero and all belong to root.
package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
)

// Spec describes an image.
type Spec struct {
	// Ref is the full name, "example.com/name:tag".
	Ref        string
	Files      []File
	Entrypoint []string
	Cmd        []string
	Env        []string // "KEY=value"
}

// File is one entry of the image's only layer. Parent folders are made as
// needed.
type File struct {
	Path string // absolute
	// Exactly one of Source (a file of this machine), Data and Link (the target
	// of a symbolic link) is used, the first that is set; a Path that ends in a
	// slash is an empty folder.
	Source string
	Data   []byte
	Link   string
	Mode   int64 // default 0755
}

// Write writes the image as a tar archive to the writer.
func Write(w io.Writer, spec Spec) error {
	layer, err := layer(spec.Files)
	if err != nil {
		return fmt.Errorf("image %s: %w", spec.Ref, err)
	}
	blobs := blobStore{}
	config := blobs.addJSON(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": spec.Entrypoint, "Cmd": spec.Cmd, "Env": spec.Env},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digest(layer)}},
	})
	manifest := blobs.addJSON(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": config.as("application/vnd.oci.image.config.v1+json"),
		"layers": []any{blobs.add(layer).as("application/vnd.oci.image.layer.v1.tar")},
	})
	entry := manifest.as("application/vnd.oci.image.manifest.v1+json")
	entry["annotations"] = map[string]string{"io.containerd.image.name": spec.Ref, "org.opencontainers.image.ref.name": spec.Ref}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": []any{entry}})
	if err != nil {
		return err
	}
	files := []File{{Path: "/oci-layout", Data: []byte(`{"imageLayoutVersion":"1.0.0"}`)}, {Path: "/index.json", Data: index}}
	for digest, blob := range blobs {
		files = append(files, File{Path: "/blobs/sha256/" + digest, Data: blob})
	}
	return writeTar(w, files)
}

// WriteFile writes the image as a tar archive to a file.
func WriteFile(name string, spec Spec) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := Write(f, spec); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// blobStore holds content by its hex digest.
type blobStore map[string][]byte

type blob struct {
	digest string
	size   int
}

func (s blobStore) add(content []byte) blob {
	sum := digest(content)
	s[strings.TrimPrefix(sum, "sha256:")] = content
	return blob{sum, len(content)}
}

// addJSON stores a document that always encodes: maps, strings and numbers.
func (s blobStore) addJSON(document any) blob {
	raw, err := json.Marshal(document)
	if err != nil {
		panic(err)
	}
	return s.add(raw)
}

// as returns the descriptor of the blob.
func (b blob) as(mediaType string) map[string]any {
	return map[string]any{"mediaType": mediaType, "digest": b.digest, "size": b.size}
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func layer(files []File) ([]byte, error) {
	var b bytes.Buffer
	err := writeTar(&b, files)
	return b.Bytes(), err
}

func writeTar(w io.Writer, files []File) error {
	entries := map[string]File{}
	for _, f := range files {
		if !strings.HasPrefix(f.Path, "/") {
			return fmt.Errorf("file %q: path must be absolute", f.Path)
		}
		for dir := path.Dir(path.Clean(f.Path)); dir != "/"; dir = path.Dir(dir) {
			if _, ok := entries[dir]; !ok {
				entries[dir] = File{Path: dir + "/"}
			}
		}
		entries[path.Clean(f.Path)] = f
	}
	names := make([]string, 0, len(entries))
	for name := range entries {
		names = append(names, name)
	}
	slices.Sort(names)
	archive := tar.NewWriter(w)
	for _, name := range names {
		if err := writeEntry(archive, entries[name]); err != nil {
			return fmt.Errorf("file %q: %w", name, err)
		}
	}
	return archive.Close()
}

func writeEntry(archive *tar.Writer, f File) error {
	header := &tar.Header{Name: strings.TrimPrefix(f.Path, "/"), Mode: f.Mode, Format: tar.FormatPAX}
	if header.Mode == 0 {
		header.Mode = 0o755
	}
	content := f.Data
	switch {
	case f.Source != "":
		raw, err := os.ReadFile(f.Source)
		if err != nil {
			return err
		}
		content = raw
		header.Typeflag = tar.TypeReg
	case f.Data != nil:
		header.Typeflag = tar.TypeReg
	case f.Link != "":
		header.Typeflag, header.Linkname = tar.TypeSymlink, f.Link
	case strings.HasSuffix(f.Path, "/"):
		header.Typeflag = tar.TypeDir
	default:
		header.Typeflag = tar.TypeReg
	}
	header.Size = int64(len(content))
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err := archive.Write(content)
	return err
}
