// Package redisserver runs real redis-server processes for tests: alone, as
// replicas, under Sentinels, as a Cluster, with TLS and with ACL users. They
// listen on loopback ports, keep their files in the test's own directory and
// die with the test, or with the test process. A test that uses it fails where
// there is no redis-server.
package redisserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sidecall/sidecall/test/testkit/transcript"
)

const (
	// patience bounds every wait for a condition, on a machine that is busy. A
	// Sentinel that stood still for two seconds does nothing for half a minute, and on one
	// that stands still in every minute has little time to act.
	patience = 5 * time.Minute
	// neverMissed and soonMissed are how long a server is silent before others
	// take it for dead: longer than a busy machine makes a living one wait, and
	// once it is dead.
	neverMissed = 15 * time.Second
	soonMissed  = time.Second
	// lookAgain is the pause between two looks at a condition.
	lookAgain = 10 * time.Millisecond
	// portTries is how many ports a server tries that somebody else takes first.
	portTries = 10
)

// Options of a server; the zero value is a server that keeps nothing on disk.
type Options struct {
	// Dir is where the server keeps its files, and no other does. Default: a
	// directory of the test's own.
	Dir string
	// Args are further settings, as redis-server takes them on its command
	// line: "--appendonly", "yes".
	Args []string
	// TLS makes the server speak nothing else, and only to clients that show a
	// certificate of the test's authority (Server.TLSConfig).
	TLS bool
	// Password is that of the user "default", whom Server.Do speaks as, and
	// with whom a replica introduces itself to its master.
	Password string
	// Users are what follows ACL SETUSER, one user each: "app on >secret +@read".
	Users []string
	// Clock gives the server a wall clock of its own, which Server.Jump moves. The
	// test is skipped where there is no C compiler.
	Clock bool
}

// Server is one process, and what it takes to start it again.
type Server struct {
	// Addr is host:port; it stays the same over restarts.
	Addr string
	// Dir holds the config file, the log's neighbours: dumps, append-only files.
	Dir string

	tb      testing.TB
	options Options
	flags   []string // after the config file
	certs   *certificates
	clock   *clock // nil: the machine's

	mu   sync.Mutex // guards the process, which another goroutine may kill
	cmd  *exec.Cmd
	gone chan struct{} // closed when the process has been waited for
	log  *transcript.Transcript
}

// Start starts a server and waits until it answers.
func Start(tb testing.TB, options Options) *Server {
	tb.Helper()
	return start(tb, options, nil)
}

func start(tb testing.TB, options Options, lines []string, flags ...string) *Server {
	tb.Helper()
	dir := options.Dir
	if dir == "" {
		dir = tb.TempDir()
	}
	s := &Server{tb: tb, Dir: dir, options: options, flags: flags, log: &transcript.Transcript{}}
	tb.Cleanup(s.Kill)
	if options.Clock {
		s.clock = newClock(tb)
	}
	if options.TLS {
		s.certs = writeCertificates(tb, s.Dir)
	}
	var err error
	for range portTries {
		s.Addr = freePort(tb)
		s.writeConfig(lines)
		s.Launch()
		if err = s.await(); err == nil {
			return s
		}
		s.Kill()
		if !strings.Contains(s.Log(), "Address already in use") {
			break
		}
	}
	tb.Fatalf("redis-server at %s: %v\n%s", s.Addr, err, s.Log())
	return nil
}

// Launch starts the process of a server that was killed, on the same port and
// files, and does not wait: the server may be loading its data for a while.
func (s *Server) Launch() {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	// Kill ends it, and Pdeathsig when the test process is killed.
	cmd := exec.Command("redis-server", append([]string{s.configFile()}, s.flags...)...)
	cmd.Stdout, cmd.Stderr, cmd.Env = s.log, s.log, s.clock.env()
	// A group of its own, because the server may have forked to write a file.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		s.tb.Fatalf("redis-server: %v (Debian: apt-get install redis-server; make test does it)", err)
	}
	gone := make(chan struct{})
	go func() { // ends with the process
		defer close(gone)
		_ = cmd.Wait() // it was killed, or it says in its log why it ended
	}()
	s.cmd, s.gone = cmd, gone
}

// Restart starts the process again, on the same port and files, and waits until
// it answers with its data loaded.
func (s *Server) Restart() {
	s.tb.Helper()
	s.Launch()
	s.Await()
}

// Await waits until the server answers with its data loaded.
func (s *Server) Await() {
	s.tb.Helper()
	if err := s.await(); err != nil {
		s.tb.Fatalf("redis-server at %s: %v\n%s", s.Addr, err, s.Log())
	}
}

func (s *Server) await() error {
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(lookAgain) {
		select {
		case <-s.gone:
			return errors.New("the process ended")
		default:
		}
		if _, err = s.Try("ping"); err == nil {
			return nil
		}
	}
	return err
}

// Kill is kill -9, and returns when the process is gone. It does nothing when
// there is none.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return
	}
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) // it may be gone already
	<-s.gone
	s.cmd = nil
}

// Pause is SIGSTOP: connections stay, and nothing answers.
func (s *Server) Pause() {
	s.tb.Helper()
	s.signal(syscall.SIGSTOP)
}

// Resume is SIGCONT.
func (s *Server) Resume() {
	s.tb.Helper()
	s.signal(syscall.SIGCONT)
}

func (s *Server) signal(sig syscall.Signal) {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		s.tb.Fatalf("%v: redis-server at %s is not running", sig, s.Addr)
	}
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.tb.Fatalf("%v: redis-server at %s: %v", sig, s.Addr, err)
	}
}

// Do sends a command as the administrator and returns the reply; an error fails
// the test. It belongs to the goroutine of the test: others use Try.
func (s *Server) Do(args ...any) any {
	s.tb.Helper()
	reply, err := s.Try(args...)
	if err != nil {
		s.tb.Fatalf("redis-server at %s: %v: %v", s.Addr, args, err)
	}
	return reply
}

// quiet drops what the client library would log of servers that are down.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

var silence = sync.OnceFunc(func() { redis.SetLogger(quiet{}) })

// Try is Do for commands that may fail, and for any goroutine.
func (s *Server) Try(args ...any) (any, error) {
	silence()
	client := redis.NewClient(&redis.Options{
		Addr: s.Addr, Password: s.options.Password, TLSConfig: s.TLSConfig(),
		MaxRetries: -1, DialerRetries: 1, DisableIdentity: true, Protocol: 2,
		PoolSize: 1, DialTimeout: patience, ReadTimeout: patience, ContextTimeoutEnabled: true,
	})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	reply, err := client.Do(ctx, args...).Result()
	if closed := client.Close(); err == nil || errors.Is(err, redis.Nil) {
		err = closed
	}
	return reply, err
}

// Info returns one field of INFO; empty when the server does not say it, or
// does not answer.
func (s *Server) Info(field string) string {
	text, err := s.Try("info", "everything")
	if err != nil {
		return ""
	}
	return fieldOf(text, field)
}

// AwaitInfo waits until a field of INFO has a value.
func (s *Server) AwaitInfo(field, want string) {
	s.tb.Helper()
	waitFor(s.tb, fmt.Sprintf("%s of %s to be %s", field, s.Addr, want), func() bool { return s.Info(field) == want })
}

// TLSConfig is what a client needs to speak to a server with TLS; nil for one
// without.
func (s *Server) TLSConfig() *tls.Config {
	if s.certs == nil {
		return nil
	}
	return s.certs.client.Clone()
}

// TLSFiles are the paths of the PEM files of TLSConfig: the authority, and the
// client's certificate and key.
func (s *Server) TLSFiles() (ca, cert, key string) {
	return filepath.Join(s.Dir, caFile), filepath.Join(s.Dir, clientFile), filepath.Join(s.Dir, clientKeyFile)
}

// Log returns what the processes of the server have written.
func (s *Server) Log() string { return s.log.String() }

// String names the server.
func (s *Server) String() string { return "redis-server at " + s.Addr }

func (s *Server) configFile() string { return filepath.Join(s.Dir, "redis.conf") }

// writeConfig writes all settings to the file, none to the command line: what
// CONFIG REWRITE or a Sentinel changes there counts after a restart.
func (s *Server) writeConfig(lines []string) {
	s.tb.Helper()
	host, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		s.tb.Fatal(err)
	}
	all := []string{"bind " + host, "dir " + s.Dir}
	if s.options.TLS {
		all = append(all, "port 0", "tls-port "+port, "tls-replication yes", "tls-auth-clients yes",
			"tls-ca-cert-file "+filepath.Join(s.Dir, caFile),
			"tls-cert-file "+filepath.Join(s.Dir, serverFile), "tls-key-file "+filepath.Join(s.Dir, serverKeyFile))
	} else {
		all = append(all, "port "+port)
	}
	if s.options.Password != "" {
		all = append(all, "requirepass "+s.options.Password)
	}
	if len(s.flags) == 0 { // no Sentinel
		all = append(all, `save ""`, "appendonly no", "maxmemory-policy noeviction", "enable-debug-command yes",
			"repl-diskless-sync-delay 0", "repl-ping-replica-period 1")
		if s.options.Password != "" {
			all = append(all, "masterauth "+s.options.Password)
		}
	}
	for _, user := range s.options.Users {
		all = append(all, "user "+user)
	}
	all = append(append(all, settings(s.options.Args)...), lines...)
	if err := os.WriteFile(s.configFile(), []byte(strings.Join(all, "\n")+"\n"), 0o600); err != nil {
		s.tb.Fatal(err)
	}
}

// settings turns "--name", "value" into lines of a config file.
func settings(args []string) []string {
	var lines []string
	for _, arg := range args {
		if name, ok := strings.CutPrefix(arg, "--"); ok || len(lines) == 0 {
			lines = append(lines, name)
		} else {
			lines[len(lines)-1] += fmt.Sprintf(" %q", arg)
		}
	}
	return lines
}

// fieldOf reads a line "field:value" of INFO or CLUSTER INFO.
func fieldOf(text any, field string) string {
	all, _ := text.(string)
	for line := range strings.Lines(all) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func waitFor(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(lookAgain) {
		if time.Now().After(deadline) {
			tb.Fatalf("waited in vain for %s", what)
		}
	}
}

// Jump moves the wall clock of a server that was started with Options.Clock by
// whole seconds, back where they are negative. What is asked of the server from then
// on is answered by that clock.
func (s *Server) Jump(by time.Duration) {
	s.tb.Helper()
	s.clock.ahead += by
	s.clock.write(s.tb)
}
