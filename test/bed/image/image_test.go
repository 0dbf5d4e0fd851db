// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package image_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/fairslice/fairslice/test/bed/image"
)

// untar returns the content of each entry; folders end in a slash, links are
// "-> target".
func untar(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	entries := map[string]string{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return entries
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		entries[header.Name] = string(content)
		if header.Typeflag == tar.TypeSymlink {
			entries[header.Name] = "-> " + header.Linkname
		}
	}
}

func TestArchiveLeadsFromIndexToFiles(t *testing.T) {
	spec := image.Spec{
		Ref: "example.com/tool:1", Entrypoint: []string{"/bin/tool"},
		Files: []image.File{{Path: "/bin/tool", Data: []byte("code")}, {Path: "/bin/alias", Link: "/bin/tool"}, {Path: "/tmp/"}},
	}
	var first, second bytes.Buffer
	for _, w := range []io.Writer{&first, &second} {
		if err := image.Write(w, spec); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two archives of one spec differ")
	}
	archive := untar(t, first.Bytes())
	blob := func(digest string) string {
		content, ok := archive["blobs/sha256/"+strings.TrimPrefix(digest, "sha256:")]
		if !ok {
			t.Fatalf("archive has no blob %s", digest)
		}
		return content
	}
	var index struct {
		Manifests []struct {
			Digest      string
			Annotations map[string]string
		}
	}
	var manifest struct{ Config struct{ Digest string } }
	var layers struct{ Layers []struct{ Digest string } }
	unmarshal(t, archive["index.json"], &index)
	if got := index.Manifests[0].Annotations["io.containerd.image.name"]; got != spec.Ref {
		t.Errorf("index names the image %q, want %q", got, spec.Ref)
	}
	unmarshal(t, blob(index.Manifests[0].Digest), &manifest)
	unmarshal(t, blob(index.Manifests[0].Digest), &layers)
	if config := blob(manifest.Config.Digest); !strings.Contains(config, `"Entrypoint":["/bin/tool"]`) || !strings.Contains(config, layers.Layers[0].Digest) {
		t.Errorf("config is %s, want the entrypoint and the layer's digest", config)
	}
	files := untar(t, []byte(blob(layers.Layers[0].Digest)))
	want := map[string]string{"bin/": "", "bin/tool": "code", "bin/alias": "-> /bin/tool", "tmp/": ""}
	for name, content := range want {
		if got, ok := files[name]; !ok || got != content {
			t.Errorf("layer holds %q as %q (there: %v), want %q", name, got, ok, content)
		}
	}
	if len(files) != len(want) {
		t.Errorf("layer holds %d entries %v, want %d", len(files), files, len(want))
	}
}

func unmarshal(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
}

func TestBadFilesAreNamed(t *testing.T) {
	for _, file := range []image.File{{Path: "relative", Data: []byte("x")}, {Path: "/bin/tool", Source: "/does/not/exist"}} {
		err := image.Write(io.Discard, image.Spec{Ref: "example.com/tool:1", Files: []image.File{file}})
		if err == nil || !strings.Contains(err.Error(), file.Path) || !strings.Contains(err.Error(), "example.com/tool:1") {
			t.Errorf("file %+v: error %v, want one that names the image and the file", file, err)
		}
	}
}
