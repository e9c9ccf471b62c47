package cases

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/sidecall/sidecall/internal/app"
	"github.com/sidecall/sidecall/internal/config"
)

// Suite is a file of cases that were held against a config, and can be run.
type Suite struct {
	doc     *config.Document[file]
	config  string // its path, under which the text is read again for each case
	text    []byte
	options Options
	chosen  []int // the cases to run, by their places
}

// Options are what a suite is told beside its files.
type Options struct {
	// Program is a command line that runs Command with the address that follows as its
	// last argument. Without one, cases of exec backends are refused.
	Program []string
}

// Load reads a file of cases and the config that they are for, and finds what
// cannot be. The error is config.Problems of one of the two files.
func Load(cases, configFile string, options Options) (*Suite, error) {
	doc, err := config.ReadDocument[file](cases)
	if err != nil {
		return nil, err
	}
	text, err := config.ReadRegular(configFile, config.MaxFileBytes)
	if err != nil {
		return nil, config.Problems{{File: configFile, Message: "cannot read the config file: " + err.Error(), Rule: config.RuleSyntax}}
	}
	s := &Suite{doc: doc, config: configFile, text: text, options: options}
	cfg, err := s.fresh()
	if err != nil {
		return nil, err
	}
	if err := check(doc, cfg, options.Program != nil); err != nil {
		return nil, err
	}
	if err := compiles(cfg, options.Program); err != nil {
		return nil, err
	}
	for i := range doc.Value.Cases {
		s.chosen = append(s.chosen, i)
	}
	return s, nil
}

// fresh is the config as a case begins with it, which it may change.
func (s *Suite) fresh() (*config.Config, error) { return config.Parse(s.config, s.text, environment{}) }

// compiles finds what is wrong with a config beyond its text, as a start would. It
// takes the config over.
func compiles(cfg *config.Config, program []string) error {
	isolate(cfg, "unix:///nowhere")
	for name := range cfg.Backends {
		redirect(cfg, name, "http://127.0.0.1:1", program)
	}
	offer, err := app.NewOffer(cfg, version)
	if err != nil {
		return err
	}
	return offer.Close(context.Background())
}

// Only is the suite of those cases whose names are chosen.
func (s *Suite) Only(chosen func(name string) bool) *Suite {
	some := *s
	some.chosen = slices.DeleteFunc(slices.Clone(s.chosen), func(i int) bool { return !chosen(s.doc.Value.Cases[i].Name) })
	return &some
}

// Len is how many cases there are.
func (s *Suite) Len() int { return len(s.chosen) }

// atOnce is how many cases run at the same time: most of them wait.
const atOnce = 4

// settled is a case that has run; err is not of the case: something is not there
// that a sidecar needs.
type settled struct {
	result Result
	err    error
}

// Run runs the cases, some at the same time, and tells the results in the order of
// the file. After an error no further case is begun.
func (s *Suite) Run(ctx context.Context, tell func(Result)) error {
	whole := ctx
	ctx, cancel := context.WithCancel(whole)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	ended, seats := make([]chan settled, len(s.chosen)), make(chan struct{}, atOnce)
	for n := range ended {
		ended[n] = make(chan settled, 1)
	}
	running.Go(func() {
		for n, i := range s.chosen {
			select {
			case seats <- struct{}{}:
			case <-ctx.Done():
				ended[n] <- settled{err: ctx.Err()}
				return
			}
			running.Go(func() {
				defer func() { <-seats }()
				result, err := untilUndisturbed(func() (Result, bool, error) { return s.run(ctx, i) })
				ended[n] <- settled{result, err}
			})
		}
	})
	for n := range ended {
		one := <-ended[n]
		if whole.Err() != nil {
			return whole.Err()
		}
		if one.err != nil {
			return fmt.Errorf("%s: %w", s.doc.Value.Cases[s.chosen[n]].Name, one.err)
		}
		tell(one.result)
	}
	return nil
}
