package assembly

import (
	"cmp"
	"slices"

	"github.com/sidecall/sidecall/config"
)

// problems collects everything that is wrong with a config, with the places in
// the file: whoever mends it wants to read it once.
type problems struct {
	config *config.Config
	found  config.Problems
}

// add records a problem at a place in the file.
func (p *problems) add(err error, path ...string) {
	problem := p.config.Where(path...)
	problem.Message = err.Error()
	p.found = append(p.found, problem)
}

// addEach records each thing that an error says, at the place that it names
// below path.
func (p *problems) addEach(err error, path ...string) {
	for _, one := range locate(err, path) {
		p.add(one.err, one.path...)
	}
}

// err is what was found, by position, as config.Problems; nil when nothing was.
func (p *problems) err() error {
	if len(p.found) == 0 {
		return nil
	}
	slices.SortStableFunc(p.found, func(a, b config.Problem) int {
		return cmp.Or(a.Line-b.Line, a.Column-b.Column)
	})
	return p.found
}
