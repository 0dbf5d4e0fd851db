// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package pack

// prices keep GPU models for the tasks that can use nothing else. For each set
// of models that some tasks demand, the ratio of its demand (its part of all
// expected demand, of all that is free) to what is free of it is charged for
// every GPU of these models that is taken: a ratio of 1 is where it gets tight.
// Among the models that a task demands the charges are alike and steer little.
type prices struct {
	specs []spec
	free  int64
}

type spec struct {
	models Models
	// demand in 1/scale of all; free thousandths of its models.
	demand, free int64
}

// pricePercent is how much a ratio of 1 costs, of the GPU that is taken.
const pricePercent = 30

func newPrices(classes []Class) *prices {
	p := &prices{}
	var total int64
	for i := range classes {
		total += classes[i].Weight * classes[i].Demand()
	}
	at := map[Models]int{}
	for i := range classes {
		c := &classes[i]
		if c.Models == 0 || c.GPUs == 0 || total == 0 {
			continue
		}
		if _, known := at[c.Models]; !known {
			at[c.Models] = len(p.specs)
			p.specs = append(p.specs, spec{models: c.Models})
		}
		p.specs[at[c.Models]].demand += c.Weight * c.Demand()
	}
	for i := range p.specs {
		p.specs[i].demand = ratio(p.specs[i].demand, total)
	}
	return p
}

// ratio is a/b in 1/scale.
func ratio(a, b int64) int64 {
	if a > 1<<42 {
		return a / max(b>>20, 1)
	}
	return a * scale / max(b, 1)
}

// change tells that this much more is free of a model.
func (p *prices) change(model int, free int64) {
	p.free += free
	for i := range p.specs {
		if p.specs[i].models.Has(model) {
			p.specs[i].free += free
		}
	}
}

// of a thousandth of a GPU of a model, in 1/scale.
func (p *prices) of(model int) int64 {
	var sum int64
	for i := range p.specs {
		s := &p.specs[i]
		if s.models.Has(model) {
			sum += min(s.demand*p.free/(s.free+Whole), priceLimit*scale)
		}
	}
	return sum * pricePercent / 100
}
