package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	sidecall "github.com/sidecall/sidecall/clients/go"
	"github.com/sidecall/sidecall/server/console"
)

const consoleHelp = `Serve the console to your own browser: a search box for "did it run?", each call with
its verdict and what that rests on, what is of unknown outcome, what waits for a person,
and how the tools are.

The pages come from this command and not from the sidecar: it asks the operator's socket
as you, and what you may do there is what the pages can do. It listens on loopback alone.
The address that it prints has a token, without which it shows nothing. From another
machine: ssh -L 8473:127.0.0.1:8473 HOST, and open the address here.`

func newConsole() *cobra.Command {
	var at operatorAt
	var listen, by string
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Serve the console of a running sidecar to your browser",
		Long:  consoleHelp,
		Example: `  sidecall console
  sidecall console --addr unix:///run/sidecall/operator.sock --listen 127.0.0.1:8473`,
		Args: between(0, 0, "", "the sidecar is named by --addr or --config"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			addr, stop, err := at.open(cmd.Context())
			if err != nil {
				return err
			}
			defer stop()
			return withConnection(addr, func(client *sidecall.Client) error {
				pages, err := console.New(console.Options{Operator: client.Operator(), By: by, Address: addr})
				if err != nil {
					return fail(exitUnavailable, err)
				}
				return serveConsole(cmd, pages, listen)
			})
		},
	}
	at.flags(cmd)
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "loopback host:port to serve the pages on; port 0 is any")
	cmd.Flags().StringVar(&by, "by", cmp.Or(os.Getenv("USER"), "operator"), "what to call you where something is decided, beside the user that the system says you are")
	return cmd
}

// serveConsole serves the pages until the command is to end.
func serveConsole(cmd *cobra.Command, pages *console.Console, listen string) error {
	host, _, err := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fail(exitUsage, fmt.Errorf("--listen %q: want a loopback host:port, such as 127.0.0.1:8473: the pages are yours alone", listen))
	}
	handler, err := pages.Handler()
	if err != nil {
		return fail(exitUnavailable, err)
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return fail(exitUnavailable, fmt.Errorf("--listen: %w", err))
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	web := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, BaseContext: func(net.Listener) context.Context { return ctx }}
	sampled := make(chan struct{})
	go func() { // ends with ctx
		defer close(sampled)
		pages.Sample(ctx)
	}()
	stop := context.AfterFunc(ctx, func() { _ = web.Close() }) // whoever has asked for the end waits for no page
	defer stop()
	fmt.Fprintf(cmd.OutOrStdout(), "http://%s%s\n", listener.Addr(), pages.Entry())
	err = web.Serve(listener)
	cancel()
	<-sampled
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fail(exitUnavailable, err)
}
