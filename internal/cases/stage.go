package cases

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sidecall/sidecall/internal/app"
	"github.com/sidecall/sidecall/internal/config"
)

// stage is what one case is played on: a sidecar of the config, with stand-ins for
// all of its backends. It is used for one case, so that no breaker, record or
// budget of one case is there in the next.
type stage struct {
	tools    targets
	ledger   *ledger
	pace     pace
	program  []string // see Options
	dir      string
	standIns []*server
	sidecar  *app.Sidecar
	conn     *grpc.ClientConn
}

// version is what the sidecars of cases call themselves.
const version = "test"

// setUp makes a stage of a config, which it takes over. called are the tools that
// the case calls. Whoever sets one up takes it down.
func setUp(ctx context.Context, cfg *config.Config, called []target, of *oneCase, program []string) (s *stage, err error) {
	s = &stage{program: program, tools: targets{cfg}, ledger: newLedger(of.Answers), pace: paceOf(called, of.least(targets{cfg}))}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.takeDown(ctx))
		}
	}()
	if s.dir, err = os.MkdirTemp("", "sidecall-test-"); err != nil {
		return s, err
	}
	if err = s.standIn(called); err != nil {
		return s, err
	}
	socket := "unix://" + filepath.Join(s.dir, "s")
	isolate(cfg, socket)
	s.pace.apply(cfg)
	if s.sidecar, err = app.Start(ctx, cfg, app.Options{Log: slog.DiscardHandler, Version: version}); err != nil {
		return s, err
	}
	if s.conn, err = grpc.NewClient(socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry()); err != nil {
		return s, err
	}
	return s, s.ready(ctx)
}

// standIn puts a stand-in into the place of every backend that can be reached. One for which
// there is none ends the case: it would be asked itself, and have its effects.
func (s *stage) standIn(called []target) error {
	cfg := s.tools.cfg
	for _, name := range slices.Sorted(maps.Keys(cfg.Backends)) {
		var handler func(stop <-chan struct{}) http.Handler
		switch b := cfg.Backends[name]; {
		case b.HTTP != nil:
			handler = newHTTPStandIn(name, s.tools, s.ledger, s.pace).handler
		case b.Worker != nil:
			continue // whose functions are in a program of the team's own
		case b.MCP != nil:
			handler = newMCPStandIn(name, s.tools, called, s.ledger, s.pace).handler
		case b.Exec != nil:
			handler = newCommandStandIn(name, s.tools, s.ledger, s.pace).handler
		default:
			return fmt.Errorf("backend %s: there is nothing that can stand in for it", name)
		}
		made, err := listen(handler)
		if err != nil {
			return err
		}
		s.standIns = append(s.standIns, made)
		redirect(cfg, name, made.url(), s.program)
	}
	return nil
}

// redirect lets a config find a stand-in instead of a backend. Where there is no
// program to stand in for commands they are nothing that can be run.
func redirect(cfg *config.Config, name, to string, program []string) {
	b := cfg.Backends[name]
	switch {
	case b.HTTP != nil:
		redirectHTTP(b.HTTP, to)
	case b.MCP != nil:
		redirectMCP(b.MCP, to)
	case b.Exec != nil:
		redirectCommands(cfg, name, program, to)
	}
	b.Pin = false
	cfg.Backends[name] = b
}

// isolate takes a config away from everything that it has around it but backends:
// its addresses, store, journal, pins.
func isolate(cfg *config.Config, socket string) {
	cfg.Listen = []config.Listener{{Address: config.NewText(socket)}}
	cfg.Admin, cfg.Operator = config.NewText("off"), config.NewText("off")
	cfg.Store = config.Store{Memory: &config.Memory{}}
	off := false
	cfg.Journal = config.Journal{Enabled: &off}
	cfg.Pins = config.Pins{}
}

// ready waits until every backend has told its tools.
func (s *stage) ready(ctx context.Context) error {
	select {
	case <-s.sidecar.Ready():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the sidecar does not become ready: %w", ctx.Err())
	}
}

// endPatience is how long the parts of a stage may take to end.
const endPatience = 10 * time.Second

// takeDown ends everything that there is.
func (s *stage) takeDown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
	defer cancel()
	var errs []error
	for _, standIn := range s.standIns { // first: what hangs at them ends with them
		errs = append(errs, standIn.close())
	}
	if s.conn != nil {
		errs = append(errs, s.conn.Close())
	}
	if s.sidecar != nil {
		errs = append(errs, s.sidecar.Stop(ctx))
	}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}
