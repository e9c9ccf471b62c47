//go:build !failpoint

package server

import "google.golang.org/grpc"

// watchSent returns the options that a build for the proofs adds.
func watchSent() []grpc.ServerOption { return nil }
