// Package mcpservers knows the MCP servers that others wrote and that the
// end-to-end tests run: where test/e2e/install.sh put them and how each is started.
package mcpservers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Server is a command that speaks MCP on its standard input and output.
type Server struct {
	// Name is the name of the package it comes from.
	Name string
	// Command is the program and its arguments, with absolute paths.
	Command []string
	// Env is what the program needs of the environment, as NAME=VALUE.
	Env []string
}

// Everything is @modelcontextprotocol/server-everything: every feature of the
// protocol. arg is stdio, sse or streamableHttp; none means stdio.
func Everything(arg ...string) (Server, error) {
	return node("mcp-server-everything", arg...)
}

// EverythingHTTP is the same server listening for streamable HTTP on a port of
// the loopback interface, path /mcp.
func EverythingHTTP(port int) (Server, error) {
	s, err := Everything("streamableHttp")
	s.Env = append(s.Env, fmt.Sprintf("PORT=%d", port))
	return s, err
}

// Filesystem is @modelcontextprotocol/server-filesystem, allowed to work below
// the given directories.
func Filesystem(dir ...string) (Server, error) {
	return node("mcp-server-filesystem", dir...)
}

// Memory is @modelcontextprotocol/server-memory, a knowledge graph kept in file.
func Memory(file string) (Server, error) {
	s, err := node("mcp-server-memory")
	s.Env = append(s.Env, "MEMORY_FILE_PATH="+file)
	return s, err
}

// Git is mcp-server-git for one repository.
func Git(repository string) (Server, error) {
	return python(".venv", "mcp-server-git", "--repository", repository)
}

// Time is mcp-server-time, with UTC as the local time zone.
func Time() (Server, error) {
	return python(".venv", "mcp-server-time", "--local-timezone", "Etc/UTC")
}

// SQLite is mcp-server-sqlite on one database file.
func SQLite(file string) (Server, error) {
	return python(".venv-sqlite", "mcp-server-sqlite", "--db-path", file)
}

// Dir returns the absolute path of the e2e directory of the module that the
// working directory is in.
func Dir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the e2e directory: %w", err)
	}
	for {
		e2e := filepath.Join(dir, "test", "e2e")
		if _, err := os.Stat(filepath.Join(e2e, "install.sh")); err == nil {
			return e2e, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("finding the e2e directory: the working directory is not in the source tree")
		}
		dir = parent
	}
}

// Python returns the interpreter that has grpcio and grpcio-tools.
func Python() (string, error) { return installed(".venv", "bin", "python") }

// NodeModules returns the directory that has @grpc/grpc-js and
// @grpc/proto-loader, for NODE_PATH.
func NodeModules() (string, error) { return installed("node", "node_modules") }

func node(name string, arg ...string) (Server, error) {
	path, err := installed("node", "node_modules", ".bin", name)
	return server(name, path, arg), err
}

func python(venv, name string, arg ...string) (Server, error) {
	path, err := installed(venv, "bin", name)
	return server(name, path, arg), err
}

func server(name, path string, arg []string) Server {
	return Server{
		Name:    name,
		Command: append([]string{path}, arg...),
		// PATH finds node and git; HOME is where git looks for its settings.
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")},
	}
}

// installed returns the absolute path of something below e2e, or an error that
// says how to get it.
func installed(part ...string) (string, error) {
	dir, err := Dir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(append([]string{dir}, part...)...)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s is not installed (run test/e2e/install.sh): %w", filepath.Join(part...), err)
	}
	return path, nil
}
