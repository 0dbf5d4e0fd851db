// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package toolkit

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// shipped has the form that nvidia-ctk writes, defaults commented out.
const shipped = `#accept-nvidia-visible-devices-as-volume-mounts = false
#accept-nvidia-visible-devices-envvar-when-unprivileged = true
disable-require = false
supported-driver-capabilities = "compat32,compute,display,graphics,ngx,utility,video"

[nvidia-container-cli]
load-kmods = true
# A key of another table is no setting of ours.
accept-nvidia-visible-devices-envvar-when-unprivileged = false

[nvidia-container-runtime]
mode = "auto"
`

const strict = "accept-nvidia-visible-devices-as-volume-mounts = true\naccept-nvidia-visible-devices-envvar-when-unprivileged = false\n"

func TestHole(t *testing.T) {
	for _, tc := range []struct {
		name, text     string
		envvar, mounts bool
		hole           string
	}{
		{"as shipped", shipped, true, false, "containers can reach GPUs that they were not given"},
		{"as shipped, by CDI", shipped, false, false, "containers can reach GPUs that they were not given"},
		{"as shipped, by mounts", shipped, false, true, "does not accept mounts: set accept-nvidia-visible-devices-as-volume-mounts = true"},
		{"empty", "", true, false, "containers can reach GPUs that they were not given"},
		{"strict, by mounts", strict, false, true, ""},
		{"strict, by CDI", strict, false, false, ""},
		{"strict, by variable", strict, true, false, "does not accept the variable: use --device-list=volume-mounts or nvidia-cdi"},
		{"mounts accepted beside the variable", "accept-nvidia-visible-devices-as-volume-mounts = true", false, true, "containers can reach GPUs that they were not given"},
	} {
		c, err := Parse([]byte(tc.text))
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		if got := c.Hole(tc.envvar, tc.mounts); !strings.Contains(got, tc.hole) || (got == "") != (tc.hole == "") || strings.Contains(got, "\n") {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.hole)
		}
	}
}

func TestRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.toml")
	if _, err := Read(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	for text, want := range map[string]string{
		"accept-nvidia-visible-devices-envvar-when-unprivileged = \"no\"": "config.toml: it is not the configuration",
		"[": "config.toml: it is not the configuration",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(shipped))
	f.Add([]byte(strict))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := Parse(raw)
		if err == nil && !c.AcceptEnvvar && !strings.Contains(string(raw), "false") {
			t.Errorf("%q closes what is open", raw)
		}
	})
}
