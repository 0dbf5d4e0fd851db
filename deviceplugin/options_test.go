// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package deviceplugin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/fairslice/fairslice/deviceplugin"
)

// TestBadOptions: one sentence that names the option, the value and what is allowed.
func TestBadOptions(t *testing.T) {
	for flags, want := range map[string]string{
		"":                               "option node-name is empty",
		"--node-name=n --reserve-mib=-2": "option reserve-mib is -2, must be -1 or more",
		"--node-name=n --max-sharers=-1": "option max-sharers is -1, must be 0 or more",
		"--node-name=n --reserve-model-mib=Tesla-T4=-1":                        "option reserve-model-mib is -1 for Tesla-T4, must be 0 or more",
		"--node-name=n --foreign-memory=hide":                                  `option foreign-memory is "hide", must be warn, subtract, ignore`,
		"--node-name=n --watch=shoot":                                          `option watch is "shoot", must be off, report, kill, evict`,
		"--node-name=n --watch-polls=0":                                        "option watch-polls is 0, must be 1 or more",
		"--node-name=n --watch-every=0s":                                       "option watch-every is 0s, must be above 0",
		"--node-name=n --watch-grace=-1s":                                      "option watch-grace is -1s, must be 0 or more",
		"--node-name=n --watch-context-mib=-1":                                 "option watch-context-mib is -1, must be from 0 to 1048576",
		"--node-name=n --proc-root=proc":                                       `option proc-root is "proc", must be an absolute path`,
		"--node-name=n --probation=0s":                                         "option probation is 0s, must be above 0",
		"--node-name=n --informer-wait=2m":                                     "option informer-wait is 2m0s, must be from 0 to 1m",
		"--node-name=n --device-plugin-dir=x":                                  `option device-plugin-dir is "x", must be an absolute path`,
		"--node-name=n --device-list=volumes":                                  `option device-list has "volumes", must be of envvar, volume-mounts, cdi, nvidia-cdi`,
		"--node-name=n --whole-resource=gpu":                                   `option whole-resource is "gpu", must be a domain, a slash and a name`,
		"--node-name=n --slice-resource=nvidia.com/gpu":                        `option slice-resource is "nvidia.com/gpu", which another resource has already`,
		"--node-name=n --whole-resource= --slice-resource= --memory-resource=": "at least one must be set",
		"--node-name=n --interceptor-dir=/lib --state-dir=here":                `option state-dir is "here", must be an absolute path`,
		"--node-name=n --device-list=cdi --cdi-dir=cdi":                        `option cdi-dir is "cdi", must be an absolute path`,
	} {
		o := parse(t, flags)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n  error %v\n  want  %s", flags, err, want)
		}
	}
	o := parse(t, "--node-name=n --device-list=cdi,envvar --ignore-xids=13,31 --probation=30s --gpus=0,GPU-1")
	if err := o.Validate(); err != nil || o.Probation != 30*time.Second || len(o.GPUs) != 2 || len(o.IgnoreXIDs) != 2 {
		t.Errorf("%+v: %v", o, err)
	}
}

func parse(t *testing.T, flags string) deviceplugin.Options {
	t.Helper()
	o := deviceplugin.DefaultOptions()
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	o.AddFlags(f)
	if err := f.Parse(strings.Fields(flags)); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestChosenGPUs: only what the option names is served; a wrong name lists what
// there is.
func TestChosenGPUs(t *testing.T) {
	w := newWorld(t, "a100-40gb")
	w.opts.GPUs = []string{"7"}
	if err := deviceplugin.Run(t.Context(), w.opts); err == nil || !strings.Contains(err.Error(), `option gpus names "7", this node has 0 (`+w.gpus[0].UUID+")") {
		t.Errorf("err = %v", err)
	}
	w.opts.GPUs = []string{"1", w.gpus[3].UUID, "1"}
	w.opts.ReserveMiB = 960
	w.kubelet.start()
	w.run()
	if s, m := w.kubelet.healthy(slice), w.kubelet.healthy(memory); s != 200 || m != 2*39 {
		t.Errorf("%d slices and %d GiB, want 200 and 78", s, m)
	}
}
