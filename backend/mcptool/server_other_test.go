//go:build !unix

package mcptool

func ignoreTermination() {}
