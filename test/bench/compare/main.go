// Command compare measures Sidecall against the floor (test/bench/floor: the least
// that a proxy with a memory can do) in one run on one machine: the same
// upstream, the same Redis, the same load, rounds taken in turn. Only the ratios
// mean anything on another machine.
//
// It needs redis-server on the PATH, and builds the two binaries, each with what it takes to
// be profiled (test/bench/profiled): so it prints as well where the processor time of a call goes.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"
)

type options struct {
	sidecall, floor string
	rounds          int
	round           time.Duration
	inFlight        int
	// parts measures what a call costs without one part of Sidecall each, in the place of the
	// embedded store and of the table.
	embedded, table, parts bool
}

func main() {
	var o options
	upstream := flag.String("upstream", "", "serve as the upstream on this address (used by the benchmark itself)")
	flag.StringVar(&o.sidecall, "sidecall", "", "another sidecall binary, of which there is no table")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds of each measurement")
	flag.DurationVar(&o.round, "round", 2*time.Second, "length of a round")
	flag.IntVar(&o.inFlight, "in-flight", 32, "calls in flight in the loaded measurement")
	flag.BoolVar(&o.embedded, "embedded", true, "measure the embedded store too")
	flag.BoolVar(&o.parts, "parts", false, "measure on Redis what a call costs without one part each, and nothing else")
	flag.Parse()
	o.embedded = o.embedded && !o.parts
	if *upstream != "" {
		serveUpstream(*upstream)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, o, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// serveUpstream answers every POST with a small JSON object.
func serveUpstream(addr string) {
	answer := []byte(`{"id":"re_1","order_id":"A-1","status":"refunded","cents":4200,"note":"two mugs, one with a chip"}`)
	server := &http.Server{Addr: addr, ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if _, err := w.Write(answer); err != nil {
			return
		}
	})}
	fmt.Fprintln(os.Stderr, server.ListenAndServe())
	os.Exit(1)
}

// contestant is one way from the agent to the tool.
type contestant struct {
	name   string
	call   caller
	server *process    // nil for the direct call
	floor  *contestant // that it is measured by; nil for one
	// profile is the file of its profile.
	profile string
	// loaded and single hold the rounds at many and at one call in flight.
	loaded, single []sample
	trips          float64 // to Redis, per call
	closer         io.Closer
}

func run(ctx context.Context, o options, out io.Writer) error {
	dir, err := os.MkdirTemp("", "sidecall-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // scratch
	bench := &bench{options: o, dir: dir}
	defer bench.stop()
	if err := bench.build(ctx); err != nil {
		return err
	}
	if err := bench.start(ctx); err != nil {
		return err
	}
	if err := bench.measure(ctx, out); err != nil {
		return err
	}
	return bench.print(ctx, out)
}

// build builds the two programs.
func (b *bench) build(ctx context.Context) error {
	if b.table = b.sidecall == "" && !b.parts; b.sidecall == "" {
		b.sidecall = filepath.Join(b.dir, "sidecall")
		if err := b.goBuild(ctx, b.sidecall, "./cmd/sidecall", filepath.Join("cmd", "sidecall", "profiled_bench.go")); err != nil {
			return err
		}
	}
	b.floor = filepath.Join(b.dir, "floor")
	return b.goBuild(ctx, b.floor, "./test/bench/floor", filepath.Join("test", "bench", "floor", "profiled_bench.go"))
}

// goBuild builds a program with one file more, which lets it be profiled and is nowhere in the tree.
func (b *bench) goBuild(ctx context.Context, to, pkg, more string) error {
	source, overlay := filepath.Join(b.dir, "profiled.go"), filepath.Join(b.dir, "overlay.json")
	if err := os.WriteFile(source, []byte("package main\n\nimport _ \"github.com/sidecall/sidecall/test/bench/profiled\"\n"), 0o600); err != nil {
		return err
	}
	path, err := filepath.Abs(more)
	if err != nil {
		return err
	}
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{path: source}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		return err
	}
	if said, err := exec.CommandContext(ctx, "go", "build", "-trimpath", "-overlay", overlay, "-o", to, pkg).CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", pkg, err, said)
	}
	return nil
}

// bench is one run.
type bench struct {
	options
	dir         string
	processes   []*process
	redis       *redis.Client
	redisServer *process
	contestants []*contestant
	seq         atomic.Int64
}

func (b *bench) profileOf(name string) string {
	return filepath.Join(b.dir, strings.ReplaceAll(name, " ", "-")+".pprof")
}

func (b *bench) stop() {
	for _, c := range b.contestants {
		if c.closer != nil {
			_ = c.closer.Close() // the process ends here
		}
	}
	for _, p := range slices.Backward(b.processes) {
		p.stop()
	}
}

func (b *bench) spawn(ctx context.Context, name, addr string, argv ...string) (*process, error) {
	p, err := start(ctx, name, b.profileOf(name), listening(addr), argv...)
	if err != nil {
		return nil, err
	}
	p.addr = addr
	b.processes = append(b.processes, p)
	return p, nil
}

func (b *bench) start(ctx context.Context) error {
	addrs, err := freePorts(8 + 2*len(parts))
	if err != nil {
		return err
	}
	redisAddr, upstreamAddr, floorAddr := addrs[0], addrs[1], addrs[2]
	_, port, err := net.SplitHostPort(redisAddr)
	if err != nil {
		return err
	}
	if b.redisServer, err = b.spawn(ctx, "redis-server", redisAddr, "redis-server", "--port", port, "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction", "--dir", b.dir); err != nil {
		return fmt.Errorf("%w (Debian: apt-get install redis-server)", err)
	}
	b.redis = redis.NewClient(&redis.Options{Addr: redisAddr})
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if _, err := b.spawn(ctx, "upstream", upstreamAddr, self, "-upstream", upstreamAddr); err != nil {
		return err
	}
	url := "http://" + upstreamAddr + "/refunds"
	b.contestants = []*contestant{{name: "direct", call: directCaller(url)}}

	floor, err := b.contest(ctx, "floor", floorAddr, b.floor, "-listen", floorAddr, "-redis", redisAddr, "-upstream", url)
	if err != nil {
		return err
	}
	onRedis := setting{addrs[3], addrs[6], upstreamAddr, fmt.Sprintf("redis: {addrs: [%q]}", redisAddr), budgets, schema}
	if err := b.sidecar(ctx, floor, "redis", onRedis); err != nil {
		return err
	}
	for i := 0; b.parts && i < len(parts); i++ {
		less := parts[i].without(onRedis)
		less.addr, less.admin = addrs[8+2*i], addrs[9+2*i]
		if err := b.sidecar(ctx, floor, "without "+parts[i].name, less); err != nil {
			return err
		}
	}
	if !b.embedded {
		return nil
	}
	// Its yardstick syncs as often as it has to.
	floor, err = b.contest(ctx, "floor synced", addrs[5], b.floor, "-listen", addrs[5], "-file", filepath.Join(b.dir, "floor.log"), "-upstream", url)
	if err != nil {
		return err
	}
	return b.sidecar(ctx, floor, "embedded", setting{addrs[4], addrs[7], upstreamAddr, fmt.Sprintf("embedded: {path: %q}", filepath.Join(b.dir, "bench.db")), budgets, schema})
}

// setting is what differs between the configs of the sidecars.
type setting struct{ addr, admin, upstream, store, profile, schema string }

const (
	budgets   = "max_tool_calls: 1000000000, max_tokens: 1000000000000, max_duration: 8760h" // counted, and never used up
	unlimited = "max_tool_calls: 0, max_tokens: 0, max_duration: 0s"
	noLoops   = ", loop_guard: {off: true}"
	schema    = `type: object
      properties:
        order_id: {type: string, pattern: "^A-[0-9]+$"}
        cents: {type: integer, minimum: 1}
        note: {type: string, maxLength: 200}
        tags: {type: array, items: {type: string, enum: [fragile, gift, express]}, maxItems: 5}
      required: [order_id, cents]
      additionalProperties: false`
)

// parts are those of Sidecall that a config can do without.
var parts = []struct {
	name    string
	without func(setting) setting
}{
	{"loop guard", func(s setting) setting { s.profile += noLoops; return s }},
	{"budgets", func(s setting) setting { s.profile = unlimited; return s }},
	{"schema", func(s setting) setting { s.schema = "type: object"; return s }},
	{"redis", func(s setting) setting { s.store = "memory: {}"; return s }},
	{"all of these", func(s setting) setting {
		s.profile, s.schema, s.store = unlimited+noLoops, "type: object", "memory: {}"
		return s
	}},
}

// sidecar is a sidecar with every protection on that a setting does not leave out.
func (b *bench) sidecar(ctx context.Context, floor *contestant, name string, s setting) error {
	dir := filepath.Join(b.dir, strings.ReplaceAll(name, " ", "-")) // each has a journal of its own
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	path := filepath.Join(dir, "sidecall.yaml")
	err := os.WriteFile(path, fmt.Appendf(nil, `listen: [tcp://%s]
admin: %s
store:
  %s
profiles:
  interactive: {%s}
backends:
  shop:
    http: {base_url: "http://%s", allow_private: true}
    breaker: {failures: 5, window: 30s, open_for: 10s}
    max_in_flight: 1024
tools:
  refund:
    backend: shop
    effect: non_idempotent
    http: {method: POST, path: "/refunds"}
    input_schema:
      %s
    errors:
      - {when: "status == 404", code: NOT_FOUND, hint: "Look the order up first."}
`, s.addr, s.admin, s.store, s.profile, s.upstream, s.schema), 0o600)
	if err != nil {
		return err
	}
	c, err := b.contest(ctx, "sidecall "+name, s.addr, b.sidecall, "serve", "--config", path)
	if err == nil {
		c.floor = floor
	}
	return err
}

func (b *bench) contest(ctx context.Context, name, addr string, argv ...string) (*contestant, error) {
	p, err := b.spawn(ctx, name, addr, argv...)
	if err != nil {
		return nil, err
	}
	call, closer, err := grpcCaller(addr, "refund", strings.ReplaceAll(name, " ", "")+"-")
	if err != nil {
		return nil, err
	}
	c := &contestant{name: name, call: call, server: p, profile: b.profileOf(name), closer: closer}
	b.contestants = append(b.contestants, c)
	return c, nil
}

// measure takes rounds in turn, so that whatever else the machine does hits
// all contestants alike. The first round of each warms up and does not count.
func (b *bench) measure(ctx context.Context, out io.Writer) error {
	for round := range b.rounds + 1 {
		for _, c := range b.contestants {
			for _, inFlight := range []int{1, b.inFlight} {
				s, err := b.oneRound(ctx, c, inFlight)
				if err != nil {
					return fmt.Errorf("%s, %d in flight: %w", c.name, inFlight, err)
				}
				switch {
				case round == 0:
				case inFlight == 1:
					c.single = append(c.single, s)
				default:
					c.loaded = append(c.loaded, s)
				}
			}
		}
		if _, err := fmt.Fprintf(out, "round %d of %d done\n", round, b.rounds); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) oneRound(ctx context.Context, c *contestant, inFlight int) (sample, error) {
	before, err := b.counters(ctx, c)
	if err != nil {
		return sample{}, err
	}
	s, err := load(ctx, c.call, inFlight, b.options.round, &b.seq)
	if err != nil {
		return sample{}, err
	}
	after, err := b.counters(ctx, c)
	if err != nil {
		return sample{}, err
	}
	s.cpu, s.redis = after.cpu-before.cpu, after.redis-before.redis
	c.trips = float64(trips(before, after)) / float64(s.calls)
	return s, nil
}

func (b *bench) print(ctx context.Context, out io.Writer) error {
	w := tabwriter.NewWriter(out, 2, 0, 2, ' ', tabwriter.AlignRight)
	n := b.inFlight
	fmt.Fprintf(w, "\n\tcalls/s at %d\tp50\tp99\tCPU/call\tRedis CPU/call\tp50 at 1\tp99 at 1\tstore round trips/call\tRSS MiB\t\n", n)
	for _, c := range b.contestants {
		loaded, single := median(c.loaded), median(c.single)
		rss := 0.0
		if c.server != nil {
			rss = c.server.rss()
		}
		fmt.Fprintf(w, "%s\t%.0f\t%s\t%s\t%s\t%s\t%s\t%s\t%.2f\t%.0f\t\n", c.name, loaded.perSecond(),
			us(loaded.p50), us(loaded.p99), us(loaded.cpuPerCall()), us(loaded.redisPerCall()), us(single.p50), us(single.p99), c.trips, rss)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	direct := b.contestants[0]
	for _, c := range b.contestants {
		if c.floor == nil {
			continue
		}
		base, s := median(c.floor.loaded), median(c.loaded)
		added := median(c.single).p50 - median(direct.single).p50
		floorAdded := median(c.floor.single).p50 - median(direct.single).p50
		if _, err := fmt.Fprintf(out, "\n%s / %s: throughput at %d in flight %.2f, CPU per call %.2f, p50 at %d %.2f, p99 at %d %.2f, added latency p50 at 1 %.2f\n",
			c.name, c.floor.name, n, s.perSecond()/base.perSecond(), ratio(s.cpuPerCall(), base.cpuPerCall()),
			n, ratio(s.p50, base.p50), n, ratio(s.p99, base.p99), ratio(added, floorAdded)); err != nil {
			return err
		}
	}
	if !b.table {
		return nil
	}
	var columns []column
	for _, c := range b.contestants[1:3] {
		shares, err := profile(ctx, c.server, c.profile, func() error {
			_, err := load(ctx, c.call, n, profileRound, &b.seq)
			return err
		})
		if err != nil {
			return err
		}
		columns = append(columns, column{c.name, median(c.loaded), shares})
	}
	return printTable(out, n, columns)
}

func (b *bench) counters(ctx context.Context, c *contestant) (counters, error) {
	if c.server == nil {
		return counters{}, nil
	}
	cpu, err := c.server.cpu()
	if err != nil {
		return counters{}, err
	}
	info, err := b.redis.Info(ctx, "commandstats").Result()
	if err != nil {
		return counters{}, err
	}
	result := counters{cpu: cpu}
	if result.redis, err = b.redisServer.cpu(); err != nil {
		return counters{}, err
	}
	for _, match := range commandCalls.FindAllStringSubmatch(info, -1) {
		n, err := strconv.ParseInt(match[2], 10, 64)
		if err != nil {
			return counters{}, fmt.Errorf("INFO commandstats: %w", err)
		}
		switch match[1] {
		case "evalsha", "eval":
			result.scripts += n
		case "set", "setnx", "get":
			result.plain += n
		default:
		}
	}
	return result, nil
}
