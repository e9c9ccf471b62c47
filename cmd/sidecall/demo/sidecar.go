package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// child is a real sidecar: this same binary, in a process of its own, on the
// embedded store. It can be killed.
type child struct {
	config, log, socket string
	cmd                 *exec.Cmd
	gone                chan struct{} // closed when it has ended
	exit                error         // how, once it is gone
	conn                *grpc.ClientConn
	client              sidecallv1.ToolServiceClient
}

// newChild writes the config for the given upstreams. Nothing runs yet.
func newChild(dir, shop, dead string) (*child, error) {
	c := &child{
		config: filepath.Join(dir, "sidecall.yaml"), log: filepath.Join(dir, "sidecall.log"), socket: filepath.Join(dir, "s.sock"),
	}
	text := fmt.Sprintf(config, c.socket, filepath.Join(dir, "sidecall.db"), shop, dead)
	if err := os.WriteFile(c.config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient("unix://"+c.socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDisableRetry(), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second, Backoff: fastBackoff}))
	if err != nil {
		return nil, err
	}
	c.conn, c.client = conn, sidecallv1.NewToolServiceClient(conn)
	return c, nil
}

// start runs the sidecar and waits until it serves.
func (c *child) start(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	c.cmd = exec.CommandContext(context.WithoutCancel(ctx), self, "serve", "--config", c.config)
	c.cmd.Stderr = log
	if err := c.cmd.Start(); err != nil {
		return errors.Join(err, log.Close())
	}
	if err := log.Close(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c.gone = make(chan struct{})
	go func() {
		c.exit = c.cmd.Wait()
		close(c.gone)
		cancel() // nobody answers any more
	}()
	if _, err := c.client.ListTools(ctx, &sidecallv1.ListToolsRequest{}, grpc.WaitForReady(true)); err != nil {
		if c.ended() {
			err = fmt.Errorf("it has ended: %w", cmp.Or(c.exit, errors.New("by itself")))
		}
		return errors.Join(fmt.Errorf("the sidecar did not start: %w", err), c.showLog())
	}
	return nil
}

func (c *child) ended() bool {
	select {
	case <-c.gone:
		return true
	default:
		return false
	}
}

func (c *child) showLog() error {
	log, err := os.ReadFile(c.log)
	if err != nil {
		return err
	}
	return errors.New(string(log))
}

// kill ends the sidecar as a crash does: at once, with nothing flushed.
func (c *child) kill() error {
	if err := c.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	if <-c.gone; c.exit == nil {
		return errors.New("the sidecar ended by itself before it was killed")
	}
	return nil
}

// stop ends the sidecar politely; a sidecar that does not obey is killed.
func (c *child) stop() error {
	errs := []error{c.conn.Close()}
	if c.gone == nil || c.ended() {
		return errors.Join(errs...)
	}
	errs = append(errs, c.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-c.gone:
	case <-time.After(5 * time.Second):
		errs = append(errs, errors.New("the sidecar did not stop in 5s"), c.cmd.Process.Kill())
		<-c.gone
	}
	return errors.Join(append(errs, c.exit)...)
}
